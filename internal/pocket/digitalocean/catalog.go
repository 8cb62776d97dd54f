package digitalocean

import (
	"strconv"

	"github.com/digitalocean/godo"
)

// The list of sizes and prices is that of 29 August 2025. A month is 28 days of
// use: https://docs.digitalocean.com/products/app-platform/details/pricing/
const monthSeconds = 28 * 24 * 60 * 60

// size is an instance size.
type size struct {
	slug     string
	name     string
	cpus     int
	memory   int64 // MiB
	price    float64
	gib      int // of transfer
	tier     string
	shared   bool
	single   bool // no more than one instance
	outdated bool
}

func sizes() []size {
	const basic, pro = "basic", "professional"
	return []size{
		{"apps-s-1vcpu-0.5gb", "Shared 1VCPU 0.5GB", 1, 512, 5, 50, basic, true, true, false},
		{"apps-s-1vcpu-1gb-fixed", "Shared 1VCPU 1GB Fixed", 1, 1024, 10, 100, basic, true, true, false},
		{"apps-s-1vcpu-1gb", "Shared 1VCPU 1GB", 1, 1024, 12, 150, pro, true, false, false},
		{"apps-s-1vcpu-2gb", "Shared 1VCPU 2GB", 1, 2048, 25, 200, pro, true, false, false},
		{"apps-s-2vcpu-4gb", "Shared 2VCPU 4GB", 2, 4096, 50, 250, pro, true, false, false},
		{"apps-d-1vcpu-0.5gb", "Dedicated 1VCPU 0.5GB", 1, 512, 29, 100, pro, false, false, false},
		{"apps-d-1vcpu-1gb", "Dedicated 1VCPU 1GB", 1, 1024, 34, 200, pro, false, false, false},
		{"apps-d-1vcpu-2gb", "Dedicated 1VCPU 2GB", 1, 2048, 39, 300, pro, false, false, false},
		{"apps-d-1vcpu-4gb", "Dedicated 1VCPU 4GB", 1, 4096, 49, 400, pro, false, false, false},
		{"apps-d-2vcpu-4gb", "Dedicated 2VCPU 4GB", 2, 4096, 78, 500, pro, false, false, false},
		{"apps-d-2vcpu-8gb", "Dedicated 2VCPU 8GB", 2, 8192, 98, 600, pro, false, false, false},
		{"apps-d-4vcpu-8gb", "Dedicated 4VCPU 8GB", 4, 8192, 156, 700, pro, false, false, false},
		{"apps-d-4vcpu-16gb", "Dedicated 4VCPU 16GB", 4, 16384, 196, 800, pro, false, false, false},
		{"apps-d-8vcpu-32gb", "Dedicated 8VCPU 32GB", 8, 32768, 392, 900, pro, false, false, false},
		{"basic-xxs", "Basic XXS", 1, 512, 5, 40, basic, true, true, true},
		{"basic-xs", "Basic XS", 1, 1024, 10, 40, basic, true, true, true},
		{"basic-s", "Basic S", 1, 2048, 20, 40, basic, true, true, true},
		{"basic-m", "Basic M", 2, 4096, 40, 40, basic, true, true, true},
		{"professional-xs", "Professional XS", 1, 1024, 12, 100, pro, true, false, true},
		{"professional-s", "Professional S", 1, 2048, 25, 100, pro, true, false, true},
		{"professional-m", "Professional M", 2, 4096, 50, 100, pro, true, false, true},
		{"professional-1l", "Professional 1L", 1, 4096, 75, 100, pro, false, false, true},
		{"professional-l", "Professional L", 2, 8192, 150, 100, pro, false, false, true},
		{"professional-xl", "Professional XL", 4, 16384, 300, 100, pro, false, false, true},
	}
}

const defaultSize = "apps-s-1vcpu-0.5gb"

func sizeOf(slug string) (size, bool) {
	for _, s := range sizes() {
		if s.slug == slug {
			return s, true
		}
	}
	return size{}, false
}

func (s size) view() *godo.AppInstanceSize {
	kind := godo.AppInstanceSizeCPUType_Dedicated
	if s.shared {
		kind = godo.AppInstanceSizeCPUType_Shared
	}
	return &godo.AppInstanceSize{Name: s.name, Slug: s.slug, CPUType: kind, CPUs: strconv.Itoa(s.cpus),
		MemoryBytes: strconv.FormatInt(s.memory<<20, 10), USDPerMonth: strconv.FormatFloat(s.price, 'f', 2, 64),
		USDPerSecond: strconv.FormatFloat(s.price/monthSeconds, 'f', 12, 64), TierSlug: s.tier, Scalable: !s.shared,
		SingleInstanceOnly: s.single, DeprecationIntent: s.outdated, BandwidthAllowanceGib: strconv.Itoa(s.gib)}
}

const defaultRegion = "nyc"

// regions are those of the API's own document:
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_list_regions
func regions() []*godo.AppRegion {
	return []*godo.AppRegion{
		{Slug: "ams", Label: "Amsterdam", Flag: "netherlands", Continent: "Europe", DataCenters: []string{"ams3"}},
		{Slug: "nyc", Label: "New York", Flag: "usa", Continent: "North America", DataCenters: []string{"nyc1", "nyc3"}, Default: true},
		{Slug: "fra", Label: "Frankfurt", Flag: "germany", Continent: "Europe", DataCenters: []string{"fra1"}},
		{Slug: "sfo", Label: "San Francisco", Flag: "usa", Continent: "North America", DataCenters: []string{"sfo3"}},
		{Slug: "sgp", Label: "Singapore", Flag: "singapore", Continent: "Asia", DataCenters: []string{"sgp1"}},
		{Slug: "blr", Label: "Bangalore", Flag: "india", Continent: "Asia", DataCenters: []string{"blr1"}},
		{Slug: "tor", Label: "Toronto", Flag: "canada", Continent: "North America", DataCenters: []string{"tor1"}},
		{Slug: "lon", Label: "London", Flag: "uk", Continent: "Europe", DataCenters: []string{"lon1"}},
		{Slug: "syd", Label: "Sydney", Flag: "australia", Continent: "Australia", DataCenters: []string{"syd1"}},
		{Slug: "atl", Label: "Atlanta", Flag: "usa", Continent: "North America", DataCenters: []string{"atl1"}},
	}
}

func regionOf(slug string) *godo.AppRegion {
	for _, r := range regions() {
		if r.Slug == slug {
			return r
		}
	}
	return nil
}
