package ecs

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// defaultCluster is the one that is meant when none is named.
const defaultCluster = "default"

// cluster is a group of tasks and their capacity.
type cluster struct {
	Name      string
	Active    bool
	Providers []string
	Strategy  []types.CapacityProviderStrategyItem
	Tags      []types.Tag
	Settings  []types.ClusterSetting
}

// enhanced says whether Container Insights measures each task.
func (c *cluster) enhanced() bool {
	return slices.ContainsFunc(c.Settings, func(s types.ClusterSetting) bool {
		return s.Name == types.ClusterSettingNameContainerInsights && text(s.Value) == "enhanced"
	})
}

func fargateProviders() []string { return []string{"FARGATE", "FARGATE_SPOT"} }

// cluster finds an active cluster by name or ARN. The lock is held.
func (s *Service) cluster(name *string) (*cluster, error) {
	n := defaultCluster
	if name != nil && *name != "" {
		bare, ok := s.fromARN("cluster", *name)
		if !ok {
			return nil, refuse(ruleCluster, "Cluster not found.")
		}
		n = bare
	}
	c, ok := s.clusters[n]
	if !ok {
		return nil, refuse(ruleCluster, "Cluster not found.")
	}
	if !c.Active {
		return nil, refuse(ruleClusterInactive, "The referenced cluster was inactive.")
	}
	return c, nil
}

func (s *Service) clusterARN(c *cluster) string { return s.arn("cluster", c.Name) }

// describe shows a cluster. The lock is held.
func (s *Service) describe(c *cluster, include []types.ClusterField) types.Cluster {
	out := types.Cluster{ClusterArn: ptr(s.clusterARN(c)), ClusterName: &c.Name, Status: ptr("ACTIVE"),
		CapacityProviders: slices.Clone(c.Providers), DefaultCapacityProviderStrategy: slices.Clone(c.Strategy)}
	if !c.Active {
		out.Status = ptr("INACTIVE")
	}
	for _, t := range s.order {
		if t.cluster == c.Name {
			switch *t.view.LastStatus {
			case running:
				out.RunningTasksCount++
			case pending:
				out.PendingTasksCount++
			}
		}
	}
	for _, v := range s.services {
		if v.Cluster == c.Name && v.Active {
			out.ActiveServicesCount++
		}
	}
	if slices.Contains(include, types.ClusterFieldSettings) {
		out.Settings = slices.Clone(c.Settings)
	}
	if slices.Contains(include, types.ClusterFieldTags) {
		out.Tags = slices.Clone(c.Tags)
	}
	return out
}

func (s *Service) createCluster(_ context.Context, _ awsjson.Call, in *ecs.CreateClusterInput) (*ecs.CreateClusterOutput, error) {
	name := defaultCluster
	if in.ClusterName != nil {
		name = *in.ClusterName
	}
	if !isIdentifier(name) {
		return nil, refuse(ruleClusterName, "Invalid identifier: Identifier is for %s, must match [a-zA-Z0-9-_]{1,255}", name)
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.clusters[name]
	if !ok || !c.Active {
		c = &cluster{Name: name, Active: true, Providers: slices.Clone(in.CapacityProviders), Strategy: in.DefaultCapacityProviderStrategy, Tags: in.Tags, Settings: in.Settings}
		s.clusters[name] = c
	}
	return &ecs.CreateClusterOutput{Cluster: ptr(s.describe(c, []types.ClusterField{types.ClusterFieldTags}))}, nil
}

func (s *Service) deleteCluster(_ context.Context, _ awsjson.Call, in *ecs.DeleteClusterInput) (*ecs.DeleteClusterOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	for _, t := range s.order {
		if t.cluster == c.Name && *t.view.LastStatus != stopped {
			return nil, refuse(ruleClusterTasks, "The Cluster cannot be deleted while Tasks are active.")
		}
	}
	for _, v := range s.services {
		if v.Cluster == c.Name && v.Active {
			return nil, refuse(ruleClusterServices, "The Cluster cannot be deleted while Services are active.")
		}
	}
	c.Active = false
	return &ecs.DeleteClusterOutput{Cluster: ptr(s.describe(c, nil))}, nil
}

func (s *Service) describeClusters(_ context.Context, _ awsjson.Call, in *ecs.DescribeClustersInput) (*ecs.DescribeClustersOutput, error) {
	wanted := in.Clusters
	if len(wanted) == 0 {
		wanted = []string{defaultCluster}
	}
	if len(wanted) > maxDescribe {
		return nil, refuse(ruleClusters100, "Clusters cannot have more than %d elements.", maxDescribe)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &ecs.DescribeClustersOutput{Clusters: []types.Cluster{}, Failures: []types.Failure{}}
	for _, w := range wanted {
		name, ok := s.fromARN("cluster", w)
		if c := s.clusters[name]; ok && c != nil {
			out.Clusters = append(out.Clusters, s.describe(c, in.Include))
		} else if ok {
			out.Failures = append(out.Failures, failure(s.arn("cluster", name), missing))
		} else {
			out.Failures = append(out.Failures, failure(w, missing))
		}
	}
	return out, nil
}

func (s *Service) listClusters(_ context.Context, _ awsjson.Call, in *ecs.ListClustersInput) (*ecs.ListClustersOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, c := range s.clusters {
		if c.Active {
			all = append(all, s.clusterARN(c))
		}
	}
	slices.Sort(all)
	page, next, err := s.page(all, in.NextToken, in.MaxResults)
	if err != nil {
		return nil, err
	}
	return &ecs.ListClustersOutput{ClusterArns: page, NextToken: next}, nil
}
