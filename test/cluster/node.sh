#!/usr/bin/env bash
# One Kubernetes node with its control plane. `cluster up` starts it as the first
# process of mount, network, pid, uts, ipc and cgroup namespaces of its own: when it
# ends, the kernel ends every process of the cluster.
#
#   STATE     the cluster's folder       PROGRAMS  what scripts/cluster has built
#   LEVEL     api, node or argo          CRDS      minimal or full
#
# It touches STATE/ready, and then takes "kill PART" and "start PART" from
# STATE/control.
set -euo pipefail
: "${STATE:?}" "${PROGRAMS:?}" "${LEVEL:?}" "${CRDS:?}"
deb=$PROGRAMS/deb log=$STATE/log
export PATH=$PROGRAMS/bin:$deb/usr/bin:$deb/usr/sbin:$PATH
export KUBECONFIG=$STATE/etc/admin.kubeconfig
begun=$(date +%s%N)
mark() { printf '%6d ms  %s\n' $((($(date +%s%N) - begun) / 1000000)) "$*" >>"$log/times"; }
kubectl() { kube kubectl "$@"; }

# part keeps a program running under a name, until "kill" says otherwise. It is
# started again only when "start" says so, or when it has ended by itself.
part() {
	local name=$1
	shift
	(
		trap - EXIT
		while :; do
			if [ "$(cat "$STATE/parts/$name.want" 2>/dev/null)" = down ]; then
				echo down >"$STATE/parts/$name"
				sleep 0.05
				continue
			fi
			"$@" >>"$log/$name.log" 2>&1 &
			echo $! >"$STATE/parts/$name.pid"
			echo up >"$STATE/parts/$name"
			wait $! || true
			sleep 0.05
		done
	) &
}

mounts() {
	mount --make-rprivate /
	mount --make-rshared /
	mount -t tmpfs -o mode=755 tmpfs /run
	mount -t tmpfs -o mode=755 tmpfs /var/log
	mkdir -p "$STATE"/varlib/{up,work}
	mount -t overlay -o "lowerdir=/var/lib,upperdir=$STATE/varlib/up,workdir=$STATE/varlib/work" overlay /var/lib
	mount -t sysfs sysfs /sys
	mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
	local controllers one name
	while IFS=: read -r _ controllers _; do
		case $controllers in
		"") continue ;;
		name=*) name=${controllers#name=} one=none,$controllers ;;
		*) name=$controllers one=$controllers ;;
		esac
		mkdir "/sys/fs/cgroup/$name"
		mount -t cgroup -o "$one" cgroup "/sys/fs/cgroup/$name"
		for one in ${name//,/ }; do # mounted together, they are known by each name
			[ "$one" = "$name" ] || ln -s "$name" "/sys/fs/cgroup/$one"
		done
	done </proc/self/cgroup
	# The kubelet insists on some settings of the whole machine: it gets files instead.
	local setting
	for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
		name=$STATE/fake/${setting//\//_}
		echo "${setting#*=}" >"$name"
		mount --bind "$name" "/proc/sys/${setting%=*}"
	done
}

# network gives the namespace a bridge for pods and no way out. The API server's
# service address is on lo, so that pods reach it without kube-proxy.
network() {
	ip link set lo up
	ip addr add 10.96.0.1/32 dev lo
	ip link add cni0 type bridge
	ip addr add 10.88.0.1/16 dev cni0
	ip link set cni0 up
	hostname node1
	printf '127.0.0.1 localhost\n10.88.0.1 node1\n' >"$STATE/etc/hosts"
	mount --bind "$STATE/etc/hosts" /etc/hosts
	: >"$STATE/etc/resolv.conf"
	mount --bind "$STATE/etc/resolv.conf" /etc/resolv.conf
}

api_ready() { curl -sf --cacert ca.crt -H 'Authorization: Bearer admin-token' https://127.0.0.1:443/readyz >/dev/null; }

# control_plane starts etcd and the API server.
control_plane() {
	part etcd kube etcd --name n --data-dir /run/etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster n=http://127.0.0.1:2380 \
		--unsafe-no-fsync --log-level warn
	part apiserver kube kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --advertise-address=10.88.0.1 --secure-port=443 \
		--tls-cert-file=api.crt --tls-private-key-file=api.key --token-auth-file=tokens.csv --authorization-mode=Node,RBAC \
		--service-cluster-ip-range=10.96.0.0/16 --service-account-issuer=https://kubernetes.default.svc \
		--service-account-key-file=sa.key --service-account-signing-key-file=sa.key --allow-privileged=true \
		--kubelet-preferred-address-types=InternalIP --enable-aggregator-routing=true \
		--requestheader-client-ca-file=front.crt --requestheader-allowed-names=front-proxy-client --requestheader-username-headers=X-Remote-User \
		--requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
		--proxy-client-cert-file=proxy.crt --proxy-client-key-file=proxy.key
	part forward cluster forward "unix:$STATE/api.sock" tcp:127.0.0.1:443
}

runtime() {
	cat >containerd.toml <<C
version = 2
root = "$STATE/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.test/pause:1"
  # Root without CAP_SYS_RESOURCE can't lower a score.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$deb/usr/lib/cni"
    conf_dir = "$STATE/cni"
C
	cat >"$STATE/cni/10-bridge.conflist" <<C
{"cniVersion":"1.0.0","name":"pods","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"/run/cni","ranges":[[{"subnet":"10.88.0.0/16"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
C
	part containerd containerd --config containerd.toml
}

images() {
	local ctr="ctr -a /run/containerd/containerd.sock -n k8s.io" i
	until $ctr version >/dev/null 2>&1; do sleep 0.1; done
	mark containerd is up
	for i in "$PROGRAMS"/img/*.tar; do
		case $LEVEL:$i in node:*/argoexec.tar) continue ;; esac
		$ctr images import "$i" >>"$log/import.log" 2>&1
	done
	mark images are imported
}

controllers() {
	part controllers kube kube-controller-manager --kubeconfig=kcm.kubeconfig --service-account-private-key-file=sa.key --root-ca-file=ca.crt \
		--leader-elect=false --bind-address=127.0.0.1 --flex-volume-plugin-dir="$STATE/volumeplugins" --node-monitor-grace-period=20s \
		--kube-api-qps=200 --kube-api-burst=400
	part scheduler kube kube-scheduler --kubeconfig=sched.kubeconfig --leader-elect=false --bind-address=127.0.0.1
}

kubelet() {
	cat >kubelet.yaml <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
oomScoreAdj: 0
maxPods: 250
evictionHard: {memory.available: 1Mi, nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
imageMinimumGCAge: 24h
nodeStatusUpdateFrequency: 5s
volumePluginDir: $STATE/volumeplugins
K
	part kubelet kube kubelet --config=kubelet.yaml --kubeconfig=node.kubeconfig --root-dir="$STATE/kubelet" --hostname-override=node1 --node-ip=10.88.0.1
}

# metrics starts metrics-server, which measures every 15 seconds and answers after the
# second time: nobody but who asks for measures waits for it.
# https://github.com/kubernetes-sigs/metrics-server/blob/v0.8.0/README.md
metrics() {
	kubectl apply -f "$PROGRAMS/metrics.yaml" >"$log/metrics-apply.log" 2>&1
	part metrics kube metrics-server --kubeconfig=admin.kubeconfig --authentication-kubeconfig=admin.kubeconfig --authorization-kubeconfig=admin.kubeconfig \
		--secure-port=4443 --cert-dir=/run/metrics --kubelet-insecure-tls --kubelet-preferred-address-types=InternalIP --metric-resolution=15s
}

# argo applies the CRDs of Argo's module and the rights of its pods, and starts its
# controller.
argo() {
	local f
	for f in "$PROGRAMS/argo/base/crds/$CRDS"/argoproj.io_*.yaml; do
		echo ---
		cat "$f"
	done | kubectl apply --server-side -f - >"$log/crds.log" 2>&1
	kubectl apply -f "$PROGRAMS/argo.yaml" >>"$log/crds.log" 2>&1
	kubectl wait --for=condition=Established crd/workflows.argoproj.io --timeout=60s >>"$log/crds.log" 2>&1
	mark Argo\'s CRDs are there
	# Without DEFAULT_REQUEUE_TIME each step takes ten seconds, and with the 20 calls a
	# second that it allows itself many Workflows at once take minutes.
	part argo env LEADER_ELECTION_DISABLE=true DEFAULT_REQUEUE_TIME=500ms POD_STATUS_CAPTURE_FINALIZER=true workflow-controller --namespaced --namespace argo \
		--executor-image quay.io/argoproj/argoexec:v4.0.5 --executor-image-pull-policy IfNotPresent \
		--workflow-workers 8 --qps 200 --burst 400
}

mounts
network
cd "$STATE/etc"
control_plane
if [ "$LEVEL" != api ]; then
	runtime
	images
fi
until api_ready; do sleep 0.1; done
mark the API server is ready
if [ "$LEVEL" != api ]; then
	controllers
	kubelet
	metrics
	if [ "$LEVEL" = argo ]; then argo; fi
	until kubectl get node node1 2>/dev/null | grep -qw Ready; do sleep 0.2; done
	mark the node is ready
	until kubectl get serviceaccount default >/dev/null 2>&1; do sleep 0.2; done
	mark the default service account is there
fi

exec 7<>"$STATE/control"
touch "$STATE/ready"
while read -r verb name <&7; do
	case $verb in
	kill)
		echo down >"$STATE/parts/$name.want"
		kill -9 "$(cat "$STATE/parts/$name.pid")" || true
		;;
	start) echo up >"$STATE/parts/$name.want" ;;
	esac
done
