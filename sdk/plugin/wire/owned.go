package wire

import (
	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

// EncodeListOwnedRequest returns r as a message.
func EncodeListOwnedRequest(r sdk.ListOwnedRequest) (*pb.ListOwnedRequest, error) {
	return encoded(request("encode ListOwned"), &pb.ListOwnedRequest{Owner: r.Owner})
}

// DecodeListOwnedRequest reads what EncodeListOwnedRequest wrote.
func DecodeListOwnedRequest(m *pb.ListOwnedRequest) (sdk.ListOwnedRequest, error) {
	c := request("decode ListOwned")
	c.known("", m)
	return decoded(c, sdk.ListOwnedRequest{Owner: m.GetOwner()})
}

func (c *coder) object(o sdk.OwnedObject) *pb.OwnedObject {
	m := &pb.OwnedObject{
		Type: o.Type, Id: o.ID, Name: o.Name, RunId: idBytes(o.RunID), AttemptId: idBytes(o.AttemptID), Owner: o.Owner, LedgerId: o.LedgerID,
		CreatedAt: c.stamp("object.created_at", o.CreatedAt), Started: c.stamp("object.started", o.Started),
		Ended: c.stamp("object.ended", o.Ended), Expires: c.stamp("object.expires", o.Expires),
		Live: o.Live, Shared: o.Shared, State: plain(o.State),
	}
	if o.Size != (sdk.OwnedSize{}) {
		m.Size = &pb.OwnedSize{Cpu: o.Size.CPU, Memory: o.Size.Memory, Disk: o.Size.Disk, Class: o.Size.Class}
	}
	return m
}

func (c *coder) unobject(m *pb.OwnedObject) sdk.OwnedObject {
	if !c.given("object", m) {
		return sdk.OwnedObject{}
	}
	s := m.GetSize()
	return sdk.OwnedObject{
		Type: m.GetType(), ID: m.GetId(), Name: m.GetName(),
		RunID: c.id("object.run_id", m.GetRunId()), AttemptID: c.id("object.attempt_id", m.GetAttemptId()), Owner: m.GetOwner(), LedgerID: m.GetLedgerId(),
		CreatedAt: c.time("object.created_at", m.GetCreatedAt()), Started: c.time("object.started", m.GetStarted()),
		Ended: c.time("object.ended", m.GetEnded()), Expires: c.time("object.expires", m.GetExpires()),
		Live: m.GetLive(), Shared: m.GetShared(), State: m.GetState(),
		Size: sdk.OwnedSize{CPU: s.GetCpu(), Memory: s.GetMemory(), Disk: s.GetDisk(), Class: s.GetClass()},
	}
}

// EncodeListOwnedResponse returns an object as a message.
func EncodeListOwnedResponse(o sdk.OwnedObject) (*pb.ListOwnedResponse, error) {
	c := reply("encode ListOwned's object")
	return encoded(c, &pb.ListOwnedResponse{Object: c.object(o)})
}

// DecodeListOwnedResponse reads what EncodeListOwnedResponse wrote. It takes no field
// that it doesn't know: RemoveOwned gets the object back.
func DecodeListOwnedResponse(m *pb.ListOwnedResponse) (sdk.OwnedObject, error) {
	c := reply("decode ListOwned's object")
	c.known("", m)
	return decoded(c, c.unobject(m.GetObject()))
}

// EncodeRemoveOwnedRequest returns r as a message.
func EncodeRemoveOwnedRequest(r sdk.RemoveOwnedRequest) (*pb.RemoveOwnedRequest, error) {
	c := request("encode RemoveOwned")
	return encoded(c, &pb.RemoveOwnedRequest{Object: c.object(r.Object)})
}

// DecodeRemoveOwnedRequest reads what EncodeRemoveOwnedRequest wrote.
func DecodeRemoveOwnedRequest(m *pb.RemoveOwnedRequest) (sdk.RemoveOwnedRequest, error) {
	c := request("decode RemoveOwned")
	c.known("", m)
	return decoded(c, sdk.RemoveOwnedRequest{Object: c.unobject(m.GetObject())})
}

// EncodeRenewExpiryRequest returns r as a message.
func EncodeRenewExpiryRequest(r sdk.RenewExpiryRequest) (*pb.RenewExpiryRequest, error) {
	c := request("encode RenewExpiry")
	return encoded(c, &pb.RenewExpiryRequest{Handle: c.handle(r.Handle), Expires: c.stamp("expires", r.Expires)})
}

// DecodeRenewExpiryRequest reads what EncodeRenewExpiryRequest wrote.
func DecodeRenewExpiryRequest(m *pb.RenewExpiryRequest) (sdk.RenewExpiryRequest, error) {
	c := request("decode RenewExpiry")
	c.known("", m)
	return decoded(c, sdk.RenewExpiryRequest{Handle: c.unhandle(m.GetHandle()), Expires: c.time("expires", m.GetExpires())})
}
