package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// A service has a folder among the settings:
//
//	compose.json  its settings, as a file that Compose merges
//	journal.json  the last changes that were made through Windlass
//	lock          held while one is made
//	output        what Compose said of the last one
const (
	layerFile   = "compose.json"
	journalFile = "journal.json"
	lockFile    = "lock"
	outputFile  = "output"
)

const (
	// journalVersion is the newest that is read.
	journalVersion = 1
	// kept is how many changes of a service are remembered.
	kept = 64
	// lockPatience is how long a look at the lock may take: who only asks whether
	// it is held holds it for that moment.
	lockPatience = 200 * time.Millisecond
	lockPoll     = 10 * time.Millisecond
)

// journal is what was done to a service, oldest first.
type journal struct {
	V       int     `json:"v"`
	Entries []entry `json:"entries"`
}

// entry is one change: written before Compose is started, and again at its end.
type entry struct {
	Op    sdk.ID    `json:"op"`
	Verb  verb      `json:"verb"`
	Began time.Time `json:"began"`
	// Ended is nil until Compose's end was seen; Failed is then why it failed.
	Ended  *time.Time `json:"ended"`
	Failed string     `json:"failed,omitzero"`
	// Want is how many containers there are to be; Before when each of those that
	// were there had been started.
	Want   int                  `json:"want"`
	Before map[string]time.Time `json:"before,omitzero"`
	// Revision is that of the settings which were applied.
	Revision string `json:"revision,omitzero"`
	// Generation is what the change led to.
	Generation string `json:"generation,omitzero"`
}

// verb is what a change does.
type verb string

const (
	verbStart   verb = "start"
	verbStop    verb = "stop"
	verbScale   verb = "scale"
	verbRestart verb = "restart"
	verbConfig  verb = "config"
)

func (p *provider) folder(service string) string { return filepath.Join(p.place.settings, service) }

func (p *provider) journalPath(service string) string {
	return filepath.Join(p.folder(service), journalFile)
}

// readJournal returns an empty one where nothing was ever changed.
func (p *provider) readJournal(op, service string) (journal, error) {
	path := p.journalPath(service)
	j := journal{V: journalVersion}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	if err == nil && j.V > journalVersion {
		err = fmt.Errorf("it has version %d, this program reads up to %d", j.V, journalVersion)
	}
	if err != nil {
		e := p.fail(sdk.FailedPrecondition, op, "read the journal of %s: %s: %w", service, path, err)
		e.Field, e.Remedy = "settings", "let this user read it; where it is damaged, move it away: what became of earlier changes can't be told then"
		return journal{}, e
	}
	return j, nil
}

// find returns the entry of an operation.
func (j *journal) find(id sdk.ID) *entry {
	for i := range j.Entries {
		if j.Entries[i].Op == id {
			return &j.Entries[i]
		}
	}
	return nil
}

// last returns the newest entry, nil where there is none.
func (j *journal) last() *entry {
	if len(j.Entries) == 0 {
		return nil
	}
	return &j.Entries[len(j.Entries)-1]
}

// none reports whether no containers is what was last asked for. Settings leave
// their number alone.
func (j *journal) none() bool {
	for _, e := range slices.Backward(j.Entries) {
		if e.Verb != verbConfig {
			return (e.Verb == verbScale || e.Verb == verbStart) && e.Want == 0 && e.Failed == ""
		}
	}
	return false
}

// forgot reports whether an operation is older than all that is remembered, so
// that its absence proves nothing.
func (j *journal) forgot(id sdk.ID) bool {
	return len(j.Entries) >= kept && id.Time().Before(j.Entries[0].Op.Time())
}

func (j *journal) add(e entry) {
	j.Entries = append(j.Entries, e)
	if n := len(j.Entries) - kept; n > 0 {
		j.Entries = j.Entries[n:]
	}
}

func (p *provider) writeJournal(op, service string, j journal) error {
	data, err := json.Marshal(j)
	if err == nil {
		err = replaceFile(p.journalPath(service), append(data, '\n'))
	}
	if err != nil {
		return p.unwritable(op, err)
	}
	return nil
}

// unwritable is the error of a folder of settings that can't be written to:
// nothing was changed.
func (p *provider) unwritable(op string, err error) error {
	e := p.fail(sdk.FailedPrecondition, op, "keep a note of the change: %w", err)
	e.Field, e.Remedy = "settings", "let this user write there, or name another folder by `settings` in the provider's config"
	return e
}

// hold takes the lock of a service, whose folder it makes. Somebody else who has
// it is Aborted.
func (p *provider) hold(ctx context.Context, op, service string) (*lock, error) {
	if err := os.MkdirAll(p.folder(service), 0o700); err != nil {
		return nil, p.unwritable(op, err)
	}
	l, err := p.await(ctx, op, service)
	switch {
	case err != nil:
		return nil, err
	case l != nil:
		return l, nil
	}
	e := p.fail(sdk.Aborted, op, "service %s: somebody else changes it at the moment", service)
	e.Retryable, e.Remedy = true, "repeat it when that is over, if it still makes sense"
	return nil, e
}

// await tries to get the lock, and gives up on one that stays held: nil.
func (p *provider) await(ctx context.Context, op, service string) (*lock, error) {
	until := p.clock.Now().Add(lockPatience)
	for {
		l, err := tryLock(filepath.Join(p.folder(service), lockFile))
		if err != nil {
			return nil, p.unwritable(op, err)
		}
		if l != nil || p.clock.Now().After(until) {
			return l, nil
		}
		if p.clock.Sleep(ctx, lockPoll) != nil {
			return nil, p.ended(ctx, op)
		}
	}
}

// replaceFile writes a file of this user's so that it is there whole, or as it was
// before, also after a crash.
func replaceFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return syncFolder(dir)
}
