package podspec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Strictly decodes JSON that has no member that out hasn't.
func Strictly(raw []byte, out any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something stands behind the value")
	}
	return nil
}

// decided are members of a pod's spec that no patch may touch: the launch, the
// profile and the promises depend on them.
func decided() []string {
	return []string{"containers", "ephemeralContainers", "restartPolicy", "activeDeadlineSeconds", "terminationGracePeriodSeconds",
		"serviceAccountName", "serviceAccount", "automountServiceAccountToken", "nodeSelector", "tolerations", "affinity", "runtimeClassName",
		"priorityClassName", "imagePullSecrets"}
}

// CheckPatch refuses a patch that isn't one of a pod's spec.
func CheckPatch(patch json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(patch, &members); err != nil || members == nil {
		return fmt.Errorf("is no object")
	}
	for _, name := range decided() {
		if _, ok := members[name]; ok {
			return fmt.Errorf("can't have %s: there is a field or an option for it", name)
		}
	}
	var spec corev1.PodSpec
	if err := Strictly(patch, &spec); err != nil {
		return fmt.Errorf("is no part of a pod's spec: %w", err)
	}
	for _, v := range spec.Volumes {
		if strings.HasPrefix(v.Name, VolumePrefix) {
			return fmt.Errorf("can't have the volume %s: names that start with %s are ours", v.Name, VolumePrefix)
		}
	}
	for _, c := range spec.InitContainers {
		if c.Name == Main {
			return fmt.Errorf("can't have a container called %s", Main)
		}
	}
	return nil
}

// Patched merges a patch into a pod's spec. Volumes are added to ours.
// https://www.rfc-editor.org/rfc/rfc7386
func Patched(spec corev1.PodSpec, patch json.RawMessage) (corev1.PodSpec, error) {
	if len(patch) == 0 {
		return spec, nil
	}
	ours := spec.Volumes
	spec.Volumes = nil
	base, err := json.Marshal(spec)
	if err != nil {
		return spec, err
	}
	var target, change any
	if err := json.Unmarshal(base, &target); err != nil {
		return spec, err
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return spec, err
	}
	merged, err := json.Marshal(mergePatch(target, change))
	if err != nil {
		return spec, err
	}
	var out corev1.PodSpec
	if err := Strictly(merged, &out); err != nil {
		return spec, err
	}
	out.Volumes = append(slices.Clone(ours), out.Volumes...)
	return out, nil
}

func mergePatch(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for k, v := range p {
		if v == nil {
			delete(t, k)
		} else {
			t[k] = mergePatch(t[k], v)
		}
	}
	return t
}
