package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// maxLog is the size at which a keeper's log starts anew; one old one is kept.
const maxLog = 4 << 20

// logPath is where a keeper writes what it has to say.
func logPath(stateDir string) string { return filepath.Join(stateDir, "keeper.log") }

// Log is a keeper's log file, bounded in size. It is safe for concurrent use.
type Log struct {
	path string
	most int64
	// moved, when not nil, is told of each new file.
	moved func(*os.File)

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens the log of a state directory. As its process's standard error,
// which a crash goes to, it follows the file.
func OpenLog(stateDir string) (*Log, error) {
	l := &Log{path: logPath(stateDir), most: maxLog, moved: redirectStderr}
	if err := l.open(); err != nil {
		return nil, err
	}
	l.moved(l.file)
	return l, nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open keeper's log: %w", err)
	}
	fi, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open keeper's log: %w", err), f.Close())
	}
	l.file, l.size = f, fi.Size()
	return nil
}

// Write appends whole lines. Where no new file can be begun, it goes on in the
// old one up to twice the bound, and drops what comes then.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(b)) > l.most && l.size > 0 {
		l.turn()
	}
	if l.size > 2*l.most {
		return len(b), nil
	}
	n, err := l.file.Write(b)
	l.size += int64(n)
	return n, err
}

func (l *Log) turn() {
	if os.Rename(l.path, l.path+".old") != nil {
		return
	}
	old := l.file
	if l.open() != nil {
		return
	}
	if l.moved != nil {
		l.moved(l.file)
	}
	_ = old.Close()
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
