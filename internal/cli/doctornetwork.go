package cli

import (
	"net/url"
	"os"
	"strings"

	"github.com/windlass-run/windlass/internal/config"
)

// network says which proxy and which certificates the environment puts in force;
// false where none.
func (o *doctorOptions) network(env config.Env) (CheckView, bool) {
	v := CheckView{Subject: "network", Name: "in force", OK: true}
	var words []string
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		text := env.Get(name)
		if text == "" {
			continue
		}
		// A proxy's address may hold a password.
		at := "which is no address"
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			at = u.Host
		} else if !strings.ContainsAny(text, "@/") {
			at = text
		}
		words = append(words, name+" "+at)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		if text := env.Get(name); text != "" {
			words = append(words, name+" "+text)
		}
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		for _, path := range strings.Split(env.Get(name), string(os.PathListSeparator)) {
			if path == "" {
				continue
			}
			words = append(words, name+" "+path)
			if _, err := os.Stat(path); err != nil {
				v.OK, v.Remedy = false, "mend "+name+", or unset it: without its certificates the system's own are not taken either"
				words = append(words, "which can't be read: "+err.Error())
			}
		}
	}
	v.Detail = strings.Join(words, "; ")
	return v, len(words) > 0
}
