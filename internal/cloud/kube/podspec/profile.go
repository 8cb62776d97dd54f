package podspec

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windlass-run/windlass/sdk"
)

// What the profile strict gives where nothing else is asked for.
const (
	strictMemory = 256 << 20
	strictCPU    = 500
	strictTmp    = 64 << 20
	tmpPath      = "/tmp"
)

// FitProfile fills in what the user left unset.
func (l *Plan) FitProfile() {
	s := &l.Spec
	named := s.Profile != sdk.ProfileUnset
	if !named {
		s.Profile = sdk.ProfileStandard
		l.Fit("profile", string(s.Profile), "the default")
	}
	if named && s.Profile != sdk.ProfilePermissive && len(l.Place.Pod) > 0 {
		l.Bad(sdk.InvalidArgument, "options.pod", "", "may loosen the profile %s, which was asked for; leave one of them out", s.Profile)
	}
	if s.Profile != sdk.ProfileStrict {
		return
	}
	why := "profile strict"
	if s.Memory == 0 {
		s.Memory = strictMemory
		l.Fit("memory", fmt.Sprint(s.Memory), why)
	}
	if s.CPU == 0 {
		s.CPU = strictCPU
		l.Fit("cpu", fmt.Sprint(s.CPU), why)
	}
}

// Secure sets what no field of a spec speaks of.
// https://kubernetes.io/docs/concepts/security/pod-security-standards/
func (l *Plan) Secure(pod *corev1.PodSpec, c *corev1.Container) {
	sc := &corev1.SecurityContext{}
	l.user(sc)
	yes, no := true, false
	if p := l.Spec.Profile; p == sdk.ProfileStandard || p == sdk.ProfileStrict {
		sc.AllowPrivilegeEscalation = &no
		sc.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if l.Spec.Profile == sdk.ProfileStrict {
		sc.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
		sc.ReadOnlyRootFilesystem = &yes
		pod.EnableServiceLinks = &no
		l.writableTmp(pod, c)
	}
	if *sc != (corev1.SecurityContext{}) {
		c.SecurityContext = sc
	}
}

// writableTmp gives a container whose files can't be written a place for some.
func (l *Plan) writableTmp(pod *corev1.PodSpec, c *corev1.Container) {
	for _, m := range l.Spec.Mounts {
		if path.Clean(m.Target) == tmpPath {
			return
		}
	}
	name := VolumePrefix + "tmp"
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
		Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(strictTmp, resource.BinarySI)}}})
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: tmpPath})
}
