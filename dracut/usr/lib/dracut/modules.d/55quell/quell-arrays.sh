#!/bin/sh
# shutdown, after dm's hook (25) and before mdraid's (30). It is called again and again, without a pause, while it returns
# other than 0: only where quell asks for that.
# shellcheck disable=SC2154 # ACTION is dracut's: the verb
/usr/lib/quell/quell shutdown "$ACTION" --stage=exitrd --step=arrays
[ $? -ne 1 ]
