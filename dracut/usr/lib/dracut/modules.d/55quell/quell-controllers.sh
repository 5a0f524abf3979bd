#!/bin/sh
# shutdown, after all others: what md or dm still holds may be free in the next pass. `final` is set in the last one.
# shellcheck disable=SC2154 # ACTION and final are dracut's
/usr/lib/quell/quell shutdown "$ACTION" --stage=exitrd --step=controllers ${final:+--final}
[ $? -ne 1 ]
