# Sourced by tools/bench. weir beside the kernel's own disciplines, with the kernel's TCP, in virtual time: the same words,
# in turns, and the spread of each against itself.
# shellcheck shell=bash disable=SC2154

repeats=${1:-2}
seconds=${2:-10}
rate=${3:-20mbit}
. "$repo/tools/net.sh"
build_weir
"$repo/tools/guest" where >/dev/null

for qdisc in "cake bandwidth RATE" "codel | tbf rate RATE burst BURST" "fq_codel | tbf rate RATE burst BURST"; do
	for load in "cubic 1" "cubic 32" "dctcp 8"; do
		read -r sender flows <<<"$load"
		[ "$sender" = cubic ] || case $qdisc in
		cake*) continue ;; # the kernel's cake has no ce_threshold
		*) qdisc=${qdisc/codel/codel ce_threshold 1ms} ;;
		esac
		title "${qdisc//RATE/$rate}: $flows flows of $sender"
		"$weir" lab --virtual shaping --param rate="$rate" --param qdisc="$qdisc" --param flows="$flows" \
			--param sender="$sender" --param seconds="$seconds" --router weir --router kernel --repeat "$repeats"
	done
done
