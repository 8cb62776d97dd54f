package cloudrun

import (
	"cmp"
	"context"
	"slices"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// maxWait bounds WaitOperation when the caller doesn't.
const maxWait = 30 * time.Second

// operation is a long-running one: https://google.aip.dev/151
type operation struct {
	name string
	// meta is the resource as it is now.
	meta     func() proto.Message
	response proto.Message
	err      *statuspb.Status
	done     chan struct{} // closed when it is done
}

// newOperation makes one about a resource. The lock is held.
func (s *Service) newOperation(about proto.Message) *operation {
	op := &operation{name: s.prefix() + "/operations/" + s.uuid(), meta: func() proto.Message { return about }, done: make(chan struct{})}
	s.operations = append(s.operations, op)
	s.byName[op.name] = op
	return op
}

// isDone is called with the lock held.
func (op *operation) isDone() bool { return op.response != nil || op.err != nil }

// finish ends the operation. The lock is held.
func (op *operation) finish(s *Service, response proto.Message, err error) *operation {
	if op.isDone() {
		return op
	}
	if err != nil {
		op.err = status.Convert(err).Proto()
	} else {
		op.response = response
		op.meta = func() proto.Message { return response }
	}
	close(op.done)
	return op
}

// finish ends an operation in the background's turn: f tells how, with the lock
// held.
func (s *Service) finish(op *operation, f func() (proto.Message, error)) {
	s.mu.Lock()
	delay := s.knobs.OperationDelay
	s.mu.Unlock()
	if !s.pause(delay) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	response, err := f()
	op.finish(s, response, err)
}

// show is the operation for the wire. The lock is held.
func (op *operation) show(*Service) *longrunningpb.Operation {
	out := &longrunningpb.Operation{Name: op.name, Metadata: pack(op.meta()), Done: op.isDone()}
	switch {
	case op.err != nil:
		out.Result = &longrunningpb.Operation_Error{Error: op.err}
	case op.response != nil:
		out.Result = &longrunningpb.Operation_Response{Response: pack(op.response)}
	}
	return out
}

func pack(m proto.Message) *anypb.Any {
	if m == nil {
		return nil
	}
	a, err := anypb.New(m)
	if err != nil {
		panic("cloudrun: " + err.Error()) // its strings are UTF-8: they came over the wire
	}
	return a
}

func (s *Service) findOperation(name, permission string) (*operation, error) {
	if _, err := s.parse(name, "/operations/*", permission); err != nil {
		return nil, err
	}
	values, _ := gapi.Segments(name, "projects/*/locations/*/operations/*")
	s.mu.Lock()
	defer s.mu.Unlock()
	op, ok := s.byName[s.prefix()+"/operations/"+values[2]]
	if !ok {
		return nil, refuse(ruleOpMissing, "Operation '%s' was not found.", name)
	}
	return op, nil
}

// GetOperation describes an operation.
func (a operationsAPI) GetOperation(_ context.Context, r *longrunningpb.GetOperationRequest) (*longrunningpb.Operation, error) {
	op, err := a.s.findOperation(r.Name, "run.operations.get")
	if err != nil {
		return nil, err
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return op.show(a.s), nil
}

// WaitOperation waits until an operation is done, or the time-out has passed,
// which is no error.
func (a operationsAPI) WaitOperation(ctx context.Context, r *longrunningpb.WaitOperationRequest) (*longrunningpb.Operation, error) {
	op, err := a.s.findOperation(r.Name, "run.operations.get")
	if err != nil {
		return nil, err
	}
	limit := maxWait
	if r.Timeout != nil {
		limit = r.Timeout.AsDuration()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-op.done:
	case <-timer.C:
	case <-a.s.end:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return op.show(a.s), nil
}

// ListOperations lists operations by name.
func (a operationsAPI) ListOperations(_ context.Context, r *longrunningpb.ListOperationsRequest) (*longrunningpb.ListOperationsResponse, error) {
	s := a.s
	if _, err := s.parse(r.Name, "", "run.operations.list"); err != nil {
		return nil, err
	}
	if err := checkList(r.PageSize, false); err != nil {
		return nil, err
	}
	if r.Filter != "" {
		return nil, refuse(ruleUnsupported, "The pocket cloud doesn't offer filters of operations.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.operations)
	slices.SortFunc(list, func(a, b *operation) int { return cmp.Compare(a.name, b.name) })
	page, next, err := gapi.Page(list, func(o *operation) string { return o.name }, gapi.Size(r.PageSize, standardPage, maxPage, s.knobs.PageSize), r.PageToken, r.Name)
	if err != nil {
		return nil, err
	}
	out := &longrunningpb.ListOperationsResponse{NextPageToken: next}
	for _, op := range page {
		out.Operations = append(out.Operations, op.show(s))
	}
	return out, nil
}

// DeleteOperation forgets an operation that is done.
func (a operationsAPI) DeleteOperation(_ context.Context, r *longrunningpb.DeleteOperationRequest) (*emptypb.Empty, error) {
	op, err := a.s.findOperation(r.Name, "run.operations.delete")
	if err != nil {
		return nil, err
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if !op.isDone() {
		return nil, refuse(ruleOpRunning, "Operation '%s' is not done.", r.Name)
	}
	delete(a.s.byName, op.name)
	a.s.operations = slices.DeleteFunc(a.s.operations, func(o *operation) bool { return o == op })
	return &emptypb.Empty{}, nil
}

// CancelOperation is refused, as by Cloud Run.
func (a operationsAPI) CancelOperation(_ context.Context, r *longrunningpb.CancelOperationRequest) (*emptypb.Empty, error) {
	if _, err := a.s.findOperation(r.Name, "run.operations.cancel"); err != nil {
		return nil, err
	}
	return nil, refuse(ruleOpCancel, "Operation '%s' can't be cancelled.", r.Name)
}

// failure is an error of a status.
func failure(code codes.Code, message string) error { return status.Error(code, message) }
