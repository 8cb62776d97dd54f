package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
)

// choose collects what registers the services that every plugin has, and those of the
// capabilities that the driver declares.
func (s *Server) choose() error {
	s.register = []func(grpc.ServiceRegistrar){
		func(r grpc.ServiceRegistrar) { pb.RegisterProviderServiceServer(r, &provider{s: s}) },
		func(r grpc.ServiceRegistrar) { iacpb.RegisterIaCProviderRequiredServer(r, s.iac) },
	}
	declared := map[string]bool{}
	for _, name := range s.driver.Capabilities {
		if declared[name] {
			return sdk.Errorf(sdk.InvalidArgument, "register plugin", "driver %s declares the capability %q twice", s.driver.Kind, name)
		}
		declared[name] = true
	}
	if len(declared) == 0 {
		return &sdk.Error{Code: sdk.InvalidArgument, Op: "register plugin", Field: "Capabilities", Remedy: "set it to sdk.CapabilitiesOf[*provider](), with the provider's type",
			Err: fmt.Errorf("driver %s declares no capability", s.driver.Kind)}
	}
	for _, row := range sdk.Capabilities() {
		if !declared[row.Name] {
			continue
		}
		delete(declared, row.Name)
		services := s.servicesOf(row.Name)
		if len(services) == 0 {
			return sdk.Errorf(sdk.Internal, "register plugin", "capability %s has no service", row.Name)
		}
		s.register = append(s.register, services...)
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		return sdk.Errorf(sdk.InvalidArgument, "register plugin", "driver %s declares %q, which is no capability", s.driver.Kind, name)
	}
	return nil
}

// servicesOf returns what registers the services of a capability, on our wire and, where
// it has one, on the published.
func (s *Server) servicesOf(capability string) []func(grpc.ServiceRegistrar) {
	type register = func(grpc.ServiceRegistrar)
	switch capability {
	case sdk.Runner().String():
		return []register{
			func(r grpc.ServiceRegistrar) { pb.RegisterJobRunnerServiceServer(r, &runner{s: s}) },
			func(r grpc.ServiceRegistrar) { iacpb.RegisterIaCProviderRunnerServer(r, &iacRunner{p: s.iac}) },
		}
	case sdk.Finder().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterJobFinderServiceServer(r, &finder{s: s}) }}
	case sdk.Canceler().String():
		return []register{
			func(r grpc.ServiceRegistrar) { pb.RegisterJobCancelerServiceServer(r, &canceler{s: s}) },
			func(r grpc.ServiceRegistrar) {
				iacpb.RegisterIaCProviderJobCancelerServer(r, &iacCanceler{p: s.iac})
			},
		}
	case sdk.Cleaner().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterJobCleanerServiceServer(r, &cleaner{s: s}) }}
	case sdk.Logger().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterJobLoggerServiceServer(r, &logger{s: s}) }}
	case sdk.Batcher().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterJobBatcherServiceServer(r, &batcher{s: s}) }}
	case sdk.Watcher().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterJobWatcherServiceServer(r, &watcher{s: s}) }}
	case sdk.Lister().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterOwnedListerServiceServer(r, &lister{s: s}) }}
	case sdk.Renewer().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterExpiryRenewerServiceServer(r, &renewer{s: s}) }}
	case sdk.Workloads().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterWorkloadListerServiceServer(r, &workloadLister{s: s}) }}
	case sdk.WorkloadStates().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterWorkloadStatuserServiceServer(r, &workloadStatuser{s: s}) }}
	case sdk.WorkloadStarts().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterStarterServiceServer(r, &starter{s: s}) }}
	case sdk.WorkloadStops().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterStopperServiceServer(r, &stopper{s: s}) }}
	case sdk.WorkloadScales().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterScalerServiceServer(r, &scaler{s: s}) }}
	case sdk.WorkloadRestarts().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterRestarterServiceServer(r, &restarter{s: s}) }}
	case sdk.WorkloadConfigs().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterConfigurerServiceServer(r, &configurer{s: s}) }}
	case sdk.WorkloadExecs().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterExecerServiceServer(r, &execer{s: s}) }}
	case sdk.WorkloadLogs().String():
		return []register{
			func(r grpc.ServiceRegistrar) { pb.RegisterLogTailerServiceServer(r, &logTailer{s: s}) },
			func(r grpc.ServiceRegistrar) { iacpb.RegisterIaCProviderLogCaptureServer(r, &iacCapture{p: s.iac}) },
		}
	case sdk.WorkloadMetrics().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterMetricStreamerServiceServer(r, &metricStreamer{s: s}) }}
	case sdk.Resources().String():
		return []register{
			func(r grpc.ServiceRegistrar) { pb.RegisterResourceDriverServiceServer(r, &resources{s: s}) },
			func(r grpc.ServiceRegistrar) { iacpb.RegisterResourceDriverServer(r, &iacResources{p: s.iac}) },
		}
	case sdk.Troubleshooting().String():
		return []register{func(r grpc.ServiceRegistrar) { pb.RegisterTroubleshooterServiceServer(r, &troubleshooter{s: s}) }}
	}
	return nil
}

// recorder notes the names of what is registered.
type recorder struct {
	grpc.ServiceRegistrar
	names []string
}

func (r *recorder) RegisterService(d *grpc.ServiceDesc, impl any) {
	r.names = append(r.names, d.ServiceName)
	r.ServiceRegistrar.RegisterService(d, impl)
}

// pluginService tells a host who the plugin is, and what was registered.
type pluginService struct {
	workflowpb.UnimplementedPluginServiceServer
	s *Server
}

func (p *pluginService) GetManifest(context.Context, *emptypb.Empty) (*workflowpb.Manifest, error) {
	m := p.s.manifest
	return &workflowpb.Manifest{Name: m.Name, Version: m.Version, Author: m.Author, Description: m.Description}, nil
}

func (p *pluginService) GetContractRegistry(context.Context, *emptypb.Empty) (*workflowpb.ContractRegistry, error) {
	out := &workflowpb.ContractRegistry{}
	for _, name := range slices.Sorted(slices.Values(p.s.services)) {
		out.Contracts = append(out.Contracts, &workflowpb.ContractDescriptor{Kind: workflowpb.ContractKind_CONTRACT_KIND_SERVICE, ServiceName: name,
			Mode: workflowpb.ContractMode_CONTRACT_MODE_STRICT_PROTO})
	}
	return out, nil
}
