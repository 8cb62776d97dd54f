package docker

import "github.com/windlass-run/windlass/sdk"

// EndpointFields describes the config that says which engine is meant, for every kind
// that has one.
func EndpointFields() []sdk.SchemaField {
	return []sdk.SchemaField{
		{Name: "host", Type: sdk.TypeString, Default: "DOCKER_HOST, else the context in use, else the platform's socket",
			Doc: "The engine's address: unix:///PATH, npipe:////./pipe/NAME or tcp://HOST:PORT."},
		{Name: "context", Type: sdk.TypeString, Doc: "A Docker context; it needs ambient credentials or DOCKER_CONFIG."},
		{Name: "tls_ca", Type: sdk.TypeString, Doc: "The file of the authority that signed the engine's certificate, in PEM form."},
		{Name: "tls_cert", Type: sdk.TypeString, Doc: "The file of the client's certificate, in PEM form."},
		{Name: "tls_key", Type: sdk.TypeString, Doc: "The file of the client's key, in PEM form."},
	}
}
