#!/bin/bash
# dracut's module for quell: assembles Intel RAID (IMSM) arrays in the initramfs, and stops arrays and shuts NVMe controllers
# down in the exitrd. dracut's mdraid module may be there or not.

# called by dracut
check() {
    # A kdump kernel needs none of it, and has little memory.
    [[ ! ${IN_KDUMP-} ]] || return 255
    require_binaries /usr/lib/quell/quell partx || return 1
    [[ $hostonly ]] || return 0
    # When in doubt it is in: a disk may be away while the image is built.
    for_each_host_dev_and_slaves is_external_md && return 0
    has_imsm || has_raid_controller || has_nvme && return 0
    return 255
}

# An array whose metadata md does not know itself; called with major:minor.
is_external_md() {
    [[ $(cat "/sys/dev/block/$1/md/metadata_version" 2> /dev/null) == external:* ]]
}

has_imsm() {
    grep -qs '^E:ID_FS_TYPE=isw_raid_member$' /run/udev/data/b*
}

# Intel's, in RAID mode, or a VMD domain.
has_raid_controller() {
    local _dev
    for _dev in /sys/bus/pci/devices/*; do
        [[ $(cat "$_dev"/{vendor,class} 2> /dev/null) == 0x8086*0x0104* ]] && return 0
        [[ -d /sys/bus/pci/drivers/vmd/${_dev##*/} ]] && return 0
    done
    return 1
}

has_nvme() {
    grep -qsx pcie /sys/class/nvme/nvme*/transport
}

# called by dracut
depends() {
    echo shutdown
    # A module of its own since dracut 108.
    [[ ! -d $(dracut_module_path initqueue) ]] || echo initqueue
}

# called by dracut
installkernel() {
    hostonly='' instmods nvme vmd raid0 raid1 raid10 raid456
}

# called by dracut
# shellcheck disable=SC2154 # moddir is dracut's
install() {
    inst_binary /usr/lib/quell/quell
    inst_simple /usr/lib/quell/initrd/imsm
    inst_simple /usr/lib/quell/initrd/62-quell-imsm.rules /etc/udev/rules.d/62-quell-imsm.rules
    inst_simple "$moddir/65-quell-imsm.rules" /etc/udev/rules.d/65-quell-imsm.rules
    inst "$(find_binary partx)" /sbin/partx
    inst_multiple mkdir rm
    # mdmon keeps the metadata of a redundant volume, and mdadm gets what quell cannot do.
    inst_multiple -o mdmon mdadm
    dracut_module_included mdraid || inst_rules 63-md-raid-arrays.rules
    # What arrays are called: in a generic image too, since they are assembled from it as from another.
    if [[ ${mdadmconf-} != no ]]; then
        inst_multiple -o /etc/mdadm.conf /etc/mdadm.conf.d/*.conf /etc/mdadm/mdadm.conf /etc/mdadm/mdadm.conf.d/*.conf
    fi

    inst_script "$moddir/quell-job.sh" /usr/lib/quell/initrd/job
    inst_script "$moddir/quell-finished.sh" /usr/lib/quell/initrd/finished
    inst_hook pre-trigger 29 "$moddir/quell-wanted.sh"
    inst_hook pre-mount 05 "$moddir/quell-over.sh"
    inst_hook cleanup 98 "$moddir/quell-need-shutdown.sh"
    inst_hook shutdown 28 "$moddir/quell-arrays.sh"
    inst_hook shutdown 98 "$moddir/quell-controllers.sh"
    dracut_module_included initqueue || dracut_need_initqueue
}
