// Package all has the list of drivers: the one place that names each of them.
// Nothing registers itself, so what a program can run on can be read here.
package all

import (
	"github.com/windlass-run/windlass/internal/cloud/aws/eks"
	"github.com/windlass-run/windlass/internal/cloud/aws/logtail"
	"github.com/windlass-run/windlass/internal/cloud/azure/aks"
	"github.com/windlass-run/windlass/internal/cloud/gcp/gke"
	"github.com/windlass-run/windlass/internal/driver/aci"
	"github.com/windlass-run/windlass/internal/driver/appplatform"
	"github.com/windlass-run/windlass/internal/driver/argo"
	"github.com/windlass-run/windlass/internal/driver/batch"
	"github.com/windlass-run/windlass/internal/driver/cloudrun"
	"github.com/windlass-run/windlass/internal/driver/compose"
	"github.com/windlass-run/windlass/internal/driver/docker"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/driver/kubernetes"
	"github.com/windlass-run/windlass/internal/driver/local"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// Drivers returns every driver of this program.
func Drivers() []sdk.Driver {
	amazon := &logtail.Account{}
	return []sdk.Driver{local.Driver(), docker.Driver(), compose.Driver(), kubernetes.DriverWith(eks.Cloud(), aks.Cloud(), gke.Cloud()), argo.Driver(), ecs.DriverWith(amazon), batch.DriverWith(amazon), cloudrun.Driver(), aci.Driver(), appplatform.Driver(), fake.Driver()}
}
