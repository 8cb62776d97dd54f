package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// FuzzPatch: no patch of a pod's spec reaches what Windlass decides.
func FuzzPatch(f *testing.F) {
	f.Add(`{"containers":[{"name":"x"}]}`)
	f.Add(`{"hostAliases":null,"volumes":[{"name":"a"}]}`)
	f.Add(`{"restartPolicy":"Always"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if CheckPatch([]byte(text)) != nil {
			return
		}
		base := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: Main}}}
		got, err := Patched(base, []byte(text))
		if err == nil && (got.RestartPolicy != base.RestartPolicy || len(got.Containers) != 1 || got.Containers[0].Name != Main || got.ActiveDeadlineSeconds != nil) {
			t.Errorf("%s gives %+v", text, got)
		}
	})
}
