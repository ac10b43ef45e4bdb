# Sourced by what measures weir on live traffic: a client and a server in network namespaces of their own, and between
# them a third, the router, with the ends of two veths:
#
#   client (eth0) ---- (inside) router (outside) ---- (eth0) server
#   10.97.0.1, .11                                     10.97.0.2, 10.97.0.101 to .109
#
# All of it is removed at the end, whatever happens; what a run that was killed has left, by the next run.
# shellcheck shell=bash disable=SC2154

children=()

# Sets weir to the release build.
build_weir() {
	"$repo/tools/setup"
	find_cargo
	title "building"
	cargo build --release
	weir=$(cargo metadata --format-version 1 --no-deps | sed -E 's/.*"target_directory":"([^"]+)".*/\1/')/release/weir
}

net_down() {
	local child name
	trap '' INT TERM
	for child in "${children[@]}"; do kill -TERM "$child" 2>/dev/null || true; done
	for child in "${children[@]}"; do wait "$child" 2>/dev/null || true; done
	for name in $client $router $server; do ip netns del "$name" 2>/dev/null || true; done
	! declare -F at_end >/dev/null || at_end
}

# net_up TAG: makes them. A function at_end, if there is one, is called when all is over.
net_up() {
	local name number=1 address
	# Two runs on one machine wait for each other.
	exec 9>/tmp/weir-net.lock
	flock 9
	for name in $(ip netns list | sed -nE "s/^($1[0-9]+-[a-z]+).*/\1/p"); do
		number=${name#"$1"}
		kill -0 "${number%%-*}" 2>/dev/null || ip netns del "$name"
	done
	client=$1$$-client router=$1$$-router server=$1$$-server
	trap net_down EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	for name in $client $router $server; do ip netns add "$name"; done
	ip link add inside netns $router type veth peer name eth0 netns $client
	ip link add outside netns $router type veth peer name eth0 netns $server
	number=1
	for name in $client $server; do
		# What leaves a host is finished: XDP sees frames before checksums are filled in and segments cut.
		in_ns $name ethtool -K eth0 tx off tso off gso off gro off txvlan off >/dev/null
		# NAPI, as a real NIC has, but without GRO, which merges segments.
		in_ns $name "$weir" napi eth0
		in_ns $name ip address add 10.97.0.$number/24 dev eth0
		in_ns $name ip link set dev eth0 up
		in_ns $name ip link set dev lo up
		in_ns $name sysctl -qw net.ipv4.tcp_ecn=1 net.ipv4.tcp_no_metrics_save=1
		number=$((number + 1))
	done
	in_ns $client ip address add 10.97.0.11/24 dev eth0
	for address in {101..109}; do in_ns $server ip address add 10.97.0.$address/24 dev eth0; done
	for name in inside outside; do
		in_ns $router ethtool -K $name tx off tso off gso off gro off txvlan off >/dev/null
		in_ns $router ip link set dev $name up
	done
	spawn_in_ns $server "$weir" load serve 0.0.0.0:5201 --duration 3600
}

# Enters only the network: `ip netns exec` would make a private mount namespace, in which what weir pins is lost.
in_ns() {
	local name=$1
	shift
	nsenter --net="/run/netns/$name" -- "$@" 9>&-
}

# The same in the background; spawned is the program itself and no shell around it, and it is ended at the end.
spawn_in_ns() {
	local name=$1
	shift
	nsenter --net="/run/netns/$name" -- "$@" 9>&- &
	spawned=$!
	children+=("$spawned")
}

# Waits until the client reaches the server; who, if given, is a process that must live on.
until_through() {
	local tries=0
	until in_ns $client "$weir" load ping 10.97.0.2 --duration 0.1 --wait 0.2 -j 2>/dev/null | grep -q '"lost": 0'; do
		tries=$((tries + 1))
		[ $tries -le 30 ] && { [ -z "${1:-}" ] || kill -0 "$1" 2>/dev/null; } || return 1
	done
}

# end PROCESS: asks it to end and waits; its exit code.
end() {
	local child left=()
	for child in "${children[@]}"; do [ "$child" = "$1" ] || left+=("$child"); done
	children=("${left[@]}")
	kill -TERM "$1" 2>/dev/null || true
	wait "$1"
}

# bridge_up SPEC OUT LOG: weir between the two, SPEC each way; bridge is its process.
bridge_up() {
	spawn_in_ns $router "$weir" bridge outside inside --down "$1" --up "$1" "${@:4}" >"$2" 2>"$3"
	bridge=$spawned
	until_through $bridge || die "weir bridge did not come up: $(cat -- "$3")"
}
