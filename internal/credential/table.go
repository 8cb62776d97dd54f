package credential

// Row says which variables a kind takes.
type Row struct {
	Kind string
	// Sets are the alternatives: a set is complete when all its names are
	// there. The first complete one is taken, so that no half of another
	// mixes with it. No sets: the kind needs none.
	Sets []Set
	// Also are variables that are taken besides where they are set.
	Also []string
	// Ambient are further variables, which steer the vendor's chain; they are
	// taken with ambient alone.
	Ambient []string
	// Pocket are the made-up values for a pocket cloud; nil when the kind has
	// none.
	Pocket map[string]string
	// Endpoints are the members of the provider's config that name endpoints.
	Endpoints []string
	// Scheme is that of a pocket cloud's endpoint, http where it is empty.
	Scheme string
	// File is the member of the provider's config that names a file with all of its
	// credentials; a set isn't needed then.
	File string
	// Hosted are members of the provider's config, each an object, that name a cluster
	// of a cloud: the row of that cloud's kind holds then, with its endpoint within the
	// object.
	Hosted map[string]string
	// Needed: without a complete set, and without ambient, nothing works.
	Needed bool
}

// The made-up values. What credentials hold is left out of every message, so no
// word of any language may be one of them.
const (
	pocketKey    = "POCKETKEYOFNOWORTH7Q"
	pocketSecret = "pocket-secret-of-no-worth-7q4x" //nolint:gosec // it opens nothing
)

// Set is one way to give credentials.
type Set struct {
	// Names must all be there; Optional come along where they are.
	Names, Optional []string
}

// Table returns the rows of all kinds that are known. A kind without a row
// takes nothing from the environment.
func Table() []Row {
	docker := []string{"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_TLS", "DOCKER_CERT_PATH", "DOCKER_API_VERSION", "DOCKER_CONFIG", "DOCKER_CONTEXT"}
	kube := Row{
		Sets:    []Set{{Names: []string{"KUBECONFIG"}}},
		File:    "kubeconfig",
		Ambient: []string{"HOME", "USERPROFILE", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"},
		Needed:  true,
	}
	aws := Row{
		Sets: []Set{
			{Names: []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, Optional: []string{"AWS_SESSION_TOKEN"}},
			{Names: []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"}, Optional: []string{"AWS_ROLE_SESSION_NAME"}},
		},
		Also: []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE"},
		Ambient: []string{"HOME", "USERPROFILE", "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_SDK_LOAD_CONFIG",
			"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT"},
		Pocket:    map[string]string{"AWS_ACCESS_KEY_ID": pocketKey, "AWS_SECRET_ACCESS_KEY": pocketSecret},
		Endpoints: []string{"endpoint"},
		Needed:    true,
	}
	return []Row{
		{Kind: "local"},
		{Kind: "fake"},
		{Kind: "docker", Also: docker, Ambient: []string{"HOME", "USERPROFILE", "SSH_AUTH_SOCK"}},
		{Kind: "compose", Also: docker, Ambient: []string{"HOME", "USERPROFILE", "SSH_AUTH_SOCK"}},
		{Kind: "kubernetes", Sets: kube.Sets, File: kube.File, Ambient: kube.Ambient, Needed: true,
			Hosted: map[string]string{"eks": "aws-ecs", "aks": "azure-aci", "gke": "gcp-cloudrun"}},
		{Kind: "argo", Sets: append(kube.Sets, Set{Names: []string{"ARGO_TOKEN"}}), Also: []string{"ARGO_TOKEN"}, File: kube.File, Ambient: kube.Ambient, Needed: true},
		as(aws, "aws-ecs"),
		as(aws, "aws-batch"),
		{
			Kind: "gcp-cloudrun",
			Sets: []Set{
				{Names: []string{"GOOGLE_APPLICATION_CREDENTIALS"}},
				{Names: []string{"GOOGLE_OAUTH_ACCESS_TOKEN"}},
				{Names: []string{"CLOUDSDK_AUTH_ACCESS_TOKEN"}},
			},
			Also:      []string{"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_REGION", "GOOGLE_CLOUD_QUOTA_PROJECT"},
			Ambient:   []string{"HOME", "USERPROFILE", "APPDATA", "CLOUDSDK_CONFIG", "GCE_METADATA_HOST"},
			Pocket:    map[string]string{"CLOUDSDK_AUTH_ACCESS_TOKEN": pocketSecret},
			Endpoints: []string{"endpoint"},
			Needed:    true,
		},
		{
			Kind: "azure-aci",
			Sets: []Set{
				{Names: []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"}},
				{Names: []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_CERTIFICATE_PATH"}, Optional: []string{"AZURE_CLIENT_CERTIFICATE_PASSWORD"}},
				{Names: []string{"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"}},
			},
			Also:    []string{"AZURE_SUBSCRIPTION_ID", "AZURE_AUTHORITY_HOST"},
			Ambient: []string{"HOME", "USERPROFILE", "AZURE_CONFIG_DIR", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "IMDS_ENDPOINT", "MSI_ENDPOINT", "MSI_SECRET"},
			// The tenant is the one that a pocket Azure has.
			Pocket: map[string]string{"AZURE_TENANT_ID": "11111111-2222-3333-4444-555555555555",
				"AZURE_CLIENT_ID": "22222222-3333-4444-5555-666666666666", "AZURE_CLIENT_SECRET": pocketSecret},
			Endpoints: []string{"endpoint"},
			Scheme:    "https",
			Needed:    true,
		},
		{
			Kind: "digitalocean",
			Sets: []Set{
				{Names: []string{"DIGITALOCEAN_TOKEN"}},
				{Names: []string{"DIGITALOCEAN_ACCESS_TOKEN"}},
			},
			Ambient:   []string{"HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME", "DIGITALOCEAN_CONTEXT"},
			Pocket:    map[string]string{"DIGITALOCEAN_TOKEN": pocketSecret},
			Endpoints: []string{"endpoint"},
			Needed:    true,
		},
	}
}

func as(r Row, kind string) Row {
	r.Kind = kind
	return r
}
