package kubernetes

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/sdk"
)

// What the profile strict gives where nothing else is asked for.
const (
	strictMemory = 256 << 20
	strictCPU    = 500
	strictTmp    = 64 << 20
	tmpPath      = "/tmp"
)

// fitProfile fills in what the user left unset.
func (l *plan) fitProfile() {
	s := &l.spec
	named := s.Profile != sdk.ProfileUnset
	if !named {
		s.Profile = sdk.ProfileStandard
		l.fit("profile", string(s.Profile), "the default")
	}
	if named && s.Profile != sdk.ProfilePermissive && len(l.place.Pod) > 0 {
		l.bad(sdk.InvalidArgument, "options.pod", "", "may loosen the profile %s, which was asked for; leave one of them out", s.Profile)
	}
	if s.Profile != sdk.ProfileStrict {
		return
	}
	why := "profile strict"
	if s.Memory == 0 {
		s.Memory = strictMemory
		l.fit("memory", fmt.Sprint(s.Memory), why)
	}
	if s.CPU == 0 {
		s.CPU = strictCPU
		l.fit("cpu", fmt.Sprint(s.CPU), why)
	}
	l.warnings = append(l.warnings, "the profile strict denies all traffic by a NetworkPolicy; a cluster whose network plugin enforces none lets it pass, and that can't be seen from here")
}

// secure sets what no field of a spec speaks of.
// https://kubernetes.io/docs/concepts/security/pod-security-standards/
func (l *plan) secure(pod *corev1.PodSpec, c *corev1.Container) {
	sc := &corev1.SecurityContext{}
	l.user(sc)
	yes, no := true, false
	if p := l.spec.Profile; p == sdk.ProfileStandard || p == sdk.ProfileStrict {
		sc.AllowPrivilegeEscalation = &no
		sc.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if l.spec.Profile == sdk.ProfileStrict {
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
func (l *plan) writableTmp(pod *corev1.PodSpec, c *corev1.Container) {
	for _, m := range l.spec.Mounts {
		if path.Clean(m.Target) == tmpPath {
			return
		}
	}
	name := volumePrefix + "tmp"
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
		Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(strictTmp, resource.BinarySI)}}})
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: tmpPath})
}

// policy denies the pod all traffic, in and out.
// https://kubernetes.io/docs/concepts/services-networking/network-policies/
func (l *plan) policy(meta metav1.ObjectMeta) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: *meta.DeepCopy(),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{sdk.LabelAttempt: meta.Labels[sdk.LabelAttempt]}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}
