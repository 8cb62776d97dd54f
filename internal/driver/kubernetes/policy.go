package kubernetes

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/sdk"
)

// unseen is what a launch of the profile strict warns of.
const unseen = "the profile strict denies all traffic by a NetworkPolicy; a cluster whose network plugin enforces none lets it pass, and that can't be seen from here"

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
