package sandbox

// The names of environments that are always there. No remote runner may have
// one of them.
const (
	// LocalDocker is the provider called docker, and what an unset exec_env means.
	LocalDocker = "local-docker"
	// Ephemeral is a provider of kind argo, named by argo_module or the only one.
	Ephemeral = "ephemeral"
	// ProviderEphemeral is the provider that the step names.
	ProviderEphemeral = "provider-ephemeral"
)

// Reserved returns the names that no remote runner may have.
func Reserved() []string { return []string{LocalDocker, Ephemeral, ProviderEphemeral} }
