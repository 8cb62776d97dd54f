package pluginhost

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// Attach connects to the process of a plugin that another process of this user hosts. Of l
// it needs what the host tells: Address, Done, Why and Doubt; it fills in Conn and Contract,
// and Release disconnects then, too. A process that answers nothing is doubted until its
// host ends it: the error's ID is ErrEnded then, and the host has a new one for who asks
// again.
func Attach(ctx context.Context, name string, l *Lease) error {
	op := "connect to plugin " + name
	if l.Address == "" {
		return sdk.Errorf(sdk.Unimplemented, op, "only its host can speak to it on this system")
	}
	conn, err := grpc.NewClient("unix:"+l.Address, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return sdk.Errorf(sdk.Unavailable, op, "%w", err)
	}
	l.Conn = conn
	if l.Contract, err = ask(ctx, watched{l, name}, Manifest{}); err != nil {
		_ = conn.Close()
		return unattached(ctx, op, name, l, err)
	}
	release := l.Release
	l.Release = func() {
		release()
		_ = conn.Close()
	}
	return nil
}

// unattached is the error of a process that couldn't be asked who it is. Nothing else was
// sent to it.
func unattached(ctx context.Context, op, name string, l *Lease, cause error) error {
	if ctx.Err() != nil {
		return &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: op, Unreached: true, Err: cause}
	}
	e := &sdk.Error{Code: sdk.CodeOf(cause), Op: op, Retryable: sdk.IsRetryable(cause), Unreached: true, Err: cause,
		Remedy: "try again, and windlass plugin check " + name + " looks at it; keeper.log has what it said"}
	if e.Code != sdk.Unavailable {
		return e
	}
	// Its host may still be seeing it to its end.
	select {
	case <-l.Done:
		e.ID, e.Err = ErrEnded, fmt.Errorf("its process has ended: %w", l.Why())
	case <-time.After(slowTime):
	case <-ctx.Done():
	}
	return e
}
