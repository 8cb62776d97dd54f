package client_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
	"github.com/windlass-run/windlass/sdk/providertest/resourcetest"
)

// TestResources runs the suite of resources on the fake through the wire.
func TestResources(t *testing.T) {
	c := fake.NewCloud(fake.Options{})
	for typ, h := range resourcetest.FakeHarnesses(c, plugintest.Through(t, fake.NewDriver(c, fake.Settings{}))) {
		t.Run(typ, func(t *testing.T) { resourcetest.Run(t, h) })
	}
}

// TestScaleOutsideInt32 wants a number that the wire can't carry refused before it is
// sent, and never cut.
func TestScaleOutsideInt32(t *testing.T) {
	c := fake.NewCloud(fake.Options{})
	d := plugintest.Through(t, fake.NewDriver(c, fake.Settings{}))
	p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "fake", Owner: "me", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, _ := sdk.Of(p, sdk.Resources())
	ids := sdk.NewIDSource(sdk.SystemClock())
	for _, n := range []int{-1, math.MaxInt32 + 1, math.MaxInt64, 1 << 32} {
		_, err := r.ScaleResource(t.Context(), sdk.ScaleResourceRequest{OpID: ids.NewID(), Ref: sdk.ResourceRef{Type: fake.TypeBox, Name: "a"}, Replicas: n})
		if sdk.CodeOf(err) != sdk.InvalidArgument {
			t.Errorf("%d: %v", n, err)
		}
	}
	if got := c.Calls(fake.OpScaleResource); got != 0 {
		t.Errorf("%d calls were sent", got)
	}
}

// TestResourceTypesCross wants a driver's table to come as it is.
func TestResourceTypesCross(t *testing.T) {
	d := fake.Driver()
	if got := plugintest.Through(t, d).Resources; !reflect.DeepEqual(got, d.Resources) {
		t.Errorf("came as %+v, is %+v", got, d.Resources)
	}
}
