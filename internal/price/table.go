package price

import "time"

// Date is the day on which the table was put together. docs/adr/0017 says from
// what.
const Date = "2026-11-28"

// Row has the list prices of one type of object.
type Row struct {
	// Kind and Type are the provider's kind and the object's type; Class is the
	// class of its size.
	Kind, Type, Class string
	// Region is the one whose prices these are, as the vendor writes it.
	Region string
	// All prices are in US dollars an hour: Flat for the object, Core for a core,
	// GiB for a GiB of memory, DiskGiB for a GiB of disk above the first DiskFree.
	Flat, Core, GiB, DiskGiB, DiskFree float64
	// Least is the shortest time that is billed.
	Least time.Duration
	// Source is the page.
	Source string
}

const (
	fargate = "https://aws.amazon.com/fargate/pricing/"
	batch   = "https://aws.amazon.com/batch/pricing/"
	ecs     = "https://aws.amazon.com/ecs/pricing/"
	run     = "https://cloud.google.com/run/pricing"
	aci     = "https://azure.microsoft.com/en-us/pricing/details/container-instances/"
	apps    = "https://docs.digitalocean.com/products/app-platform/details/pricing/"
)

// Table returns the prices. There is no row for what they can't be known of:
// instances of one's own, capacity that may be taken away, whose price changes,
// a local engine, processes.
func Table() []Row {
	x86 := Row{Region: "us-east-1", Core: 0.04048, GiB: 0.004445, DiskGiB: 0.000111, DiskFree: 20, Least: time.Minute, Source: fargate}
	arm := Row{Region: "us-east-1", Core: 0.03238, GiB: 0.00356, DiskGiB: 0.000111, DiskFree: 20, Least: time.Minute, Source: fargate}
	return append([]Row{
		x86.of("aws-ecs", "task", "FARGATE"),
		arm.of("aws-ecs", "task", "FARGATE/ARM64"),
		// ECS and AWS Batch themselves, their definitions with them, are free.
		Row{Region: "any", Source: ecs}.of("aws-ecs", "task-definition", ""),
		x86.of("aws-batch", "job", "FARGATE"),
		arm.of("aws-batch", "job", "FARGATE/ARM64"),
		Row{Region: "any", Source: batch}.of("aws-batch", "job-definition", ""),
		// Jobs of a region of tier 1: $0.000018 for a core and $0.000002 for a
		// GiB, by the second.
		Row{Region: "us-central1", Core: 0.000018 * 3600, GiB: 0.000002 * 3600, Source: run}.of("gcp-cloudrun", "job", ""),
		Row{Region: "eastus", Core: 0.0405, GiB: 0.00445, Source: aci}.of("azure-aci", "container-group", ""),
	}, appRows()...)
}

func (r Row) of(kind, object, class string) Row {
	r.Kind, r.Type, r.Class = kind, object, class
	return r
}

// appRows are the sizes of App Platform, whose month has 28 days: the API's
// usd_per_month of 5 is a usd_per_second of 0.000002066799.
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_list_instanceSizes
func appRows() []Row {
	var out []Row
	for _, s := range []struct {
		slug  string
		month float64
	}{
		{"apps-s-1vcpu-0.5gb", 5}, {"apps-s-1vcpu-1gb-fixed", 10}, {"apps-s-1vcpu-1gb", 12}, {"apps-s-1vcpu-2gb", 25}, {"apps-s-2vcpu-4gb", 50},
		{"apps-d-1vcpu-0.5gb", 29}, {"apps-d-1vcpu-1gb", 34}, {"apps-d-1vcpu-2gb", 39}, {"apps-d-1vcpu-4gb", 49}, {"apps-d-2vcpu-4gb", 78},
		{"apps-d-2vcpu-8gb", 98}, {"apps-d-4vcpu-8gb", 156}, {"apps-d-4vcpu-16gb", 196}, {"apps-d-8vcpu-32gb", 392},
	} {
		out = append(out, Row{Region: "any", Flat: s.month / (28 * 24), Least: time.Minute, Source: apps}.of("digitalocean", "app", s.slug))
	}
	return out
}
