package cli

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

type versionOptions struct {
	f    *Factory
	json bool
}

// VersionView is what version tells.
type VersionView struct {
	Version  string `json:"version" doc:"Version of this program."`
	Commit   string `json:"commit,omitzero" doc:"Commit that it was built from."`
	Date     string `json:"date,omitzero" doc:"Time of that commit."`
	Go       string `json:"go" doc:"Version of Go that built it."`
	Platform string `json:"platform" doc:"Operating system and architecture."`
}

func newVersion(f *Factory, runF func(context.Context, *versionOptions) error) *cobra.Command {
	o := &versionOptions{f: f}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run()
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *versionOptions) run() error {
	b := o.f.Build
	v := VersionView{Version: b.Version, Commit: b.Commit, Date: b.Date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if o.json {
		return writeJSON(o.f.Streams.Out, v)
	}
	commit := ""
	if v.Commit != "" && !strings.Contains(v.Version, v.Commit[:min(len(v.Commit), 12)]) {
		commit = ", commit " + v.Commit[:min(len(v.Commit), 12)]
	}
	_, err := fmt.Fprintf(o.f.Streams.Out, "windlass %s (%s, %s%s)\n", v.Version, v.Go, v.Platform, commit)
	return err
}
