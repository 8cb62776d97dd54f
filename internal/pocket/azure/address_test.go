package azure

import (
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
)

// TestF98Address gives a group that had ended another address.
func TestF98Address(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "web", with(service("sleep", "1000"), func(g *arm.ContainerGroup) {
		g.Properties.IPAddress = &arm.IPAddress{Type: to.Ptr(arm.ContainerGroupIPAddressTypePublic), Ports: []*arm.Port{{Port: to.Ptr[int32](80)}}}
		g.Properties.Containers[0].Properties.Ports = []*arm.ContainerPort{{Port: to.Ptr[int32](80)}}
	}))
	address := func(g arm.ContainerGroup) string { return *g.Properties.IPAddress.IP }
	first := address(c.until(t, "web", "Running"))
	post := func(verb string, status int) {
		t.Helper()
		if a := c.call(t, http.MethodPost, c.groupPath("web")+"/"+verb, nil); a.status != status {
			t.Fatalf("%s: %v", verb, a)
		}
	}
	post("restart", http.StatusNoContent)
	if got := address(c.until(t, "web", "Running")); got != first {
		t.Errorf("restarted in place with %s, was %s", got, first)
	}
	post("stop", http.StatusNoContent)
	c.until(t, "web", "Stopped")
	post("start", http.StatusAccepted)
	if got := address(c.until(t, "web", "Running")); got == first {
		t.Errorf("deployed anew with the address of before")
	}
}
