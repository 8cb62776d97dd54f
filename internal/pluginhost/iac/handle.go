package iac

import (
	"strings"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// Members of a handle's metadata: the plugin's own metadata stands under names of its
// own behind a prefix, as it came.
const (
	keyProvider = "provider"
	ownPrefix   = "metadata."
)

// maxHandle bounds a handle in bytes. It stands in the ledger, and goes along with every
// call.
const maxHandle = 64 << 10

// handle makes a handle of a plugin's.
func (p *provider) handle(h *pb.JobHandle) sdk.JobHandle {
	out := sdk.JobHandle{V: sdk.HandleVersion, Kind: p.info.Kind, Identity: p.info.Identity, ID: h.GetId(), Name: h.GetName(),
		Metadata: make(map[string]string, 1+len(h.GetMetadata()))}
	if h.GetProvider() != "" {
		out.Metadata[keyProvider] = h.GetProvider()
	}
	for k, v := range h.GetMetadata() {
		out.Metadata[ownPrefix+k] = v
	}
	if len(out.Metadata) == 0 {
		out.Metadata = nil
	}
	return out
}

// theirs gives the plugin its handle back, verbatim. A handle of another provider, or of
// a newer version, is refused.
func (p *provider) theirs(op string, h sdk.JobHandle) (*pb.JobHandle, error) {
	if err := h.Check(op, p.info.Identity); err != nil {
		return nil, named(err, p.info.Name)
	}
	out := &pb.JobHandle{Id: h.ID, Name: h.Name, Provider: h.Metadata[keyProvider]}
	for k, v := range h.Metadata {
		if own, ok := strings.CutPrefix(k, ownPrefix); ok {
			if out.Metadata == nil {
				out.Metadata = map[string]string{}
			}
			out.Metadata[own] = v
		}
	}
	return out, nil
}
