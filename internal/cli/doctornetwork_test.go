package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorTellsProxyAndCertificates, without the password of the proxy.
func TestDoctorTellsProxyAndCertificates(t *testing.T) {
	w := newWorld(t)
	w.env["HTTPS_PROXY"], w.env["NO_PROXY"] = "http://ann:hunter2@proxy.example:3128", ".internal"
	w.env["SSL_CERT_FILE"] = filepath.Join(w.dir, "missing.pem")
	w.run("doctor")
	out := w.out.String()
	for _, want := range []string{"HTTPS_PROXY proxy.example:3128", "NO_PROXY .internal", "missing.pem", "unset it"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "hunter2") {
		t.Errorf("the password shows:\n%s", out)
	}
}
