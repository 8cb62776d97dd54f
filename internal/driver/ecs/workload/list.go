package workload

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

const opList = "list services"

const (
	// pageMost is the most of a page of ListClusters and ListServices.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ListServices.html
	pageMost = 100
	// describeMost is the most services of one call.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_DescribeServices.html
	describeMost = 10
)

// ListWorkloads implements sdk.WorkloadLister: the services of every cluster of
// the region.
func (s *Services) ListWorkloads(ctx context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return func(yield func(sdk.WorkloadItem, error) bool) {
		err := s.clusters(ctx, func(cluster string) (bool, error) { return s.list(ctx, cluster, r.Name, yield) })
		if err != nil {
			yield(sdk.WorkloadItem{}, err)
		}
	}
}

// clusters gives the names of clusters until f returns false.
func (s *Services) clusters(ctx context.Context, f func(cluster string) (bool, error)) error {
	in := &ecs.ListClustersInput{MaxResults: new(int32(pageMost))}
	for {
		var page *ecs.ListClustersOutput
		if err := s.read(ctx, func(ctx context.Context) (err error) {
			page, err = s.o.ECS.ListClusters(ctx, in)
			return err
		}); err != nil {
			return err
		}
		for _, arn := range page.ClusterArns {
			if more, err := f(lastPart(arn)); err != nil || !more {
				return err
			}
		}
		if in.NextToken = page.NextToken; str(in.NextToken) == "" {
			return nil
		}
	}
}

// list gives a cluster's services; more is false when nobody wants any.
func (s *Services) list(ctx context.Context, cluster, name string, yield func(sdk.WorkloadItem, error) bool) (more bool, err error) {
	in := &ecs.ListServicesInput{Cluster: &cluster, MaxResults: new(int32(pageMost))}
	for {
		var page *ecs.ListServicesOutput
		err := s.read(ctx, func(ctx context.Context) (err error) {
			page, err = s.o.ECS.ListServices(ctx, in)
			return err
		})
		if aws.ErrorCode(err) == "ClusterNotFoundException" {
			return true, nil // it was deleted meanwhile
		}
		if err != nil {
			return false, err
		}
		for arns := range slices.Chunk(named(page.ServiceArns, name), describeMost) {
			var out *ecs.DescribeServicesOutput
			if err := s.read(ctx, func(ctx context.Context) (err error) {
				out, err = s.o.ECS.DescribeServices(ctx, &ecs.DescribeServicesInput{Cluster: &cluster, Services: arns, Include: []types.ServiceField{types.ServiceFieldTags}})
				return err
			}); err != nil {
				return false, err
			}
			images := s.images(ctx, out.Services)
			for i := range out.Services {
				it, err := item(cluster, &out.Services[i])
				it.Image = images[i]
				if err == nil && !yield(it, nil) {
					return false, nil
				}
			}
		}
		if in.NextToken = page.NextToken; str(in.NextToken) == "" {
			return true, nil
		}
	}
}

// images are those of some services, side by side: they stand in their task definitions
// alone. One that can't be read is left out, as a listing is worth more than that.
func (s *Services) images(ctx context.Context, list []types.Service) []string {
	out := make([]string, len(list))
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() {
			d, err := s.definition(ctx, opList, str(list[i].TaskDefinition))
			if err == nil {
				out[i] = str(d.ContainerDefinitions[d.main()].Image)
			}
		})
	}
	wg.Wait()
	return out
}

// named chooses the services of a name, or all.
func named(arns []string, name string) []string {
	if name == "" {
		return arns
	}
	return slices.DeleteFunc(slices.Clone(arns), func(arn string) bool { return lastPart(arn) != name })
}

func (s *Services) read(ctx context.Context, f func(ctx context.Context) error) error {
	return s.o.Session.Paced(ctx, s.o.ServiceReads, opList, f)
}

// item is a service in a listing. What was deleted is none.
func item(cluster string, v *types.Service) (sdk.WorkloadItem, error) {
	path, err := sdk.JoinPath(cluster, str(v.ServiceName))
	if err == nil && str(v.Status) == "INACTIVE" {
		err = sdk.Errorf(sdk.NotFound, opList, "%s was deleted", path)
	}
	desired, ready := int(v.DesiredCount), int(v.RunningCount)
	_, stopped := restores(v)
	return sdk.WorkloadItem{Path: path, Desired: &desired, Ready: &ready, Stopped: stopped}, err
}
