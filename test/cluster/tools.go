//go:build tools

// Package cluster keeps Argo's programs in go.mod.
package cluster

import (
	_ "github.com/argoproj/argo-workflows/v4/cmd/argo"
	_ "github.com/argoproj/argo-workflows/v4/cmd/argoexec"
	_ "github.com/argoproj/argo-workflows/v4/cmd/workflow-controller"
)
