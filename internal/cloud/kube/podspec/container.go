package podspec

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// VolumePrefix starts the names of the volumes that we make.
	VolumePrefix = sdk.LabelPrefix
	// Main is the container that decides; others are sidecars.
	Main = "main"
)

// Container says what runs. What Kubernetes can't do becomes a problem.
func (l *Plan) Container() corev1.Container {
	s := l.Spec
	c := corev1.Container{Name: Main, Image: s.Image, WorkingDir: s.Workdir, ImagePullPolicy: corev1.PullPolicy(l.Place.ImagePullPolicy)}
	if s.Workdir != "" && !path.IsAbs(s.Workdir) {
		l.Bad(sdk.InvalidArgument, "workdir", s.Workdir, "needs an absolute path")
	}
	l.command(&c)
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if !utf8.ValidString(s.Env[k]) {
			l.Bad(sdk.Unimplemented, "env."+k, "", "is not UTF-8, and Kubernetes takes text alone")
		}
		l.variable(k)
		c.Env = append(c.Env, corev1.EnvVar{Name: k, Value: kube.Escape(s.Env[k])})
	}
	l.secrets(&c)
	l.resources(&c)
	return c
}

// variable refuses what Kubernetes takes for no name of a variable.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables
func (l *Plan) variable(name string) {
	for i := range len(name) {
		if name[i] < 0x20 || name[i] > 0x7e {
			l.Bad(sdk.Unimplemented, "env."+name, "", "Kubernetes takes printable ASCII alone in a variable's name")
			return
		}
	}
}

// command sets entrypoint and arguments. An empty list is the same as none on the
// wire: a cleared entrypoint moves the command's first word into its place, and
// cleared arguments follow from a set entrypoint, which drops the image's own.
// https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/
func (l *Plan) command(c *corev1.Container) {
	s := l.Spec
	for field, list := range map[string]sdk.Argv{"entrypoint": s.Entrypoint, "args": s.Args, "image_entrypoint": s.ImageEntrypoint} {
		for i, a := range list {
			if !utf8.ValidString(a) {
				l.Bad(sdk.Unimplemented, fmt.Sprintf("%s[%d]", field, i), "", "is not UTF-8, and Kubernetes takes text alone")
			}
		}
	}
	entry, args := []string(s.Entrypoint), []string(s.Args)
	if s.Entrypoint == nil && s.Args != nil && len(s.Args) == 0 {
		if s.ImageEntrypoint == nil {
			l.Bad(sdk.FailedPrecondition, "args", "[]", "Kubernetes can't clear the image's arguments; say entrypoint, or image_entrypoint, which is then used")
			return
		}
		entry = s.ImageEntrypoint
	}
	if len(entry) == 0 && len(args) == 0 && (s.Entrypoint != nil || s.Args != nil) {
		l.Bad(sdk.InvalidArgument, "args", "", "nothing is left to run: entrypoint and args are both empty")
		return
	}
	if s.Entrypoint != nil && len(entry) == 0 {
		entry, args = args[:1], args[1:]
	}
	c.Command, c.Args = escaped(entry), escaped(args)
}

func escaped(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = kube.Escape(s)
	}
	return out
}

// resources asks for as much as it allows, so that the node has it.
func (l *Plan) resources(c *corev1.Container) {
	s := l.Spec
	r := corev1.ResourceList{}
	if s.CPU > 0 {
		r[corev1.ResourceCPU] = *resource.NewMilliQuantity(s.CPU, resource.DecimalSI)
	}
	if s.Memory > 0 {
		r[corev1.ResourceMemory] = *resource.NewQuantity(s.Memory, resource.BinarySI)
	}
	if s.EphemeralStorage > 0 {
		r[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(s.EphemeralStorage, resource.BinarySI)
	}
	if s.GPU > 0 {
		r[corev1.ResourceName(l.Place.GPUResource)] = *resource.NewQuantity(s.GPU, resource.DecimalSI)
	}
	if len(r) > 0 {
		c.Resources = corev1.ResourceRequirements{Limits: r, Requests: r.DeepCopy()}
	}
}

// Mounts adds volumes: memory, and claims of the namespace.
func (l *Plan) Mounts(pod *corev1.PodSpec, c *corev1.Container) {
	for i, m := range l.Spec.Mounts {
		field := fmt.Sprintf("mounts[%d]", i)
		v := corev1.Volume{Name: fmt.Sprintf("%s%d", VolumePrefix, i)}
		switch m.Type {
		case sdk.MountTmpfs:
			v.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
			if m.Size > 0 {
				v.EmptyDir.SizeLimit = resource.NewQuantity(m.Size, resource.BinarySI)
			}
		case sdk.MountVolume:
			if msg := kube.CheckName(m.Source); msg != "" {
				l.Bad(sdk.InvalidArgument, field+".source", m.Source, "is no name of a PersistentVolumeClaim: %s", msg)
				continue
			}
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: m.Source, ReadOnly: m.ReadOnly}
		default:
			l.Bad(sdk.Unimplemented, field, m.Target, "a folder of a node isn't mounted: use tmpfs, or volume with the name of a PersistentVolumeClaim")
			continue
		}
		if strings.Contains(m.Target, ":") {
			l.Bad(sdk.InvalidArgument, field+".target", m.Target, "Kubernetes takes no colon in a path")
		}
		pod.Volumes = append(pod.Volumes, v)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: m.Target, ReadOnly: m.ReadOnly})
	}
}

// user sets whom the container runs as: the API takes numbers alone.
func (l *Plan) user(sc *corev1.SecurityContext) {
	if l.Spec.User == "" {
		return
	}
	uid, gid, both := strings.Cut(l.Spec.User, ":")
	id := func(text string) *int64 {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return nil
		}
		return &n
	}
	sc.RunAsUser = id(uid)
	if both {
		sc.RunAsGroup = id(gid)
	}
	if sc.RunAsUser == nil || both && sc.RunAsGroup == nil {
		l.Bad(sdk.Unimplemented, "user", l.Spec.User, "Kubernetes takes UID or UID:GID, in numbers")
	}
}
