#!/bin/sh
# cleanup: dracut's exitrd is wanted for arrays whose metadata mdmon keeps, and for NVMe controllers to shut down together.

# The last word on the kernel command line; rd.quell. counts first.
quell_word() {
    getarg "rd.quell.$1=" || getarg "quell.$1="
}

quell_needs_exitrd() (
    [ "$(quell_word enable)" != 0 ] || return 1
    for file in /sys/block/md*/md/metadata_version; do
        if [ -e "$file" ] && read -r version < "$file" && [ "${version%%:*}" = external ]; then
            return 0
        fi
    done

    controllers=0
    for file in /sys/class/nvme/nvme*/transport; do
        if [ -e "$file" ] && read -r transport < "$file" && [ "$transport" = pcie ]; then
            controllers=$((controllers + 1))
        fi
    done
    case $(quell_word quiesce) in
    off) return 1 ;;
    always) [ $controllers -ge 1 ] ;;
    # One alone is the kernel's.
    *) [ $controllers -ge 2 ] ;;
    esac
)

if quell_needs_exitrd; then
    need_shutdown
fi
