package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// maxSocketPath is the shortest limit of the systems that we know for the path
// of a unix socket (macOS: 104 bytes with the final zero).
const maxSocketPath = 100

func lockPath(stateDir string) string { return filepath.Join(stateDir, "keeper.lock") }

// dial connects to the keeper of a state directory.
func dial(ctx context.Context, stateDir string) (net.Conn, error) {
	path, err := socketPath(stateDir)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	err = shortened(path, func(short string) (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "unix", short)
		return err
	})
	return conn, err
}

// socket is where a keeper listens.
type socket struct {
	net.Listener
	path string
	file fs.FileInfo
}

// listen makes the socket with mode 0600 from its first moment on, in place of
// one that a dead keeper left. Only the elected keeper may call it.
func listen(ctx context.Context, stateDir string) (*socket, error) {
	path, err := socketPath(stateDir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keeper's socket: %w", err)
	}
	s := &socket{path: path}
	err = shortened(path, func(short string) (err error) {
		var lc net.ListenConfig
		restore := privateUmask()
		s.Listener, err = lc.Listen(ctx, "unix", short)
		restore()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keeper's socket: %w", err)
	}
	if u, ok := s.Listener.(*net.UnixListener); ok {
		// By then the name may be another keeper's.
		u.SetUnlinkOnClose(false)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("keeper's socket: %w", err), s.Close())
	}
	if s.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(fmt.Errorf("keeper's socket: %w", err), s.Close())
	}
	return s, nil
}

// ours reports whether the name still leads to this socket.
func (s *socket) ours() bool {
	fi, err := os.Lstat(s.path)
	return err == nil && os.SameFile(fi, s.file)
}

// remove takes the name away, unless it is another's by now.
func (s *socket) remove() {
	if s.ours() {
		_ = os.Remove(s.path)
	}
}
