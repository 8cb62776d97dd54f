package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// StatePath returns the path of the state folder without touching it. An error
// says that none can be told.
func (c *Config) StatePath() (string, error) {
	if v := c.values[SettingState]; v.set {
		return c.abs(v.text), nil
	}
	if dir := c.env.Get("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "windlass"), nil
	}
	if home := homeDir(c.env); home != "" {
		return filepath.Join(home, ".local", "state", "windlass"), nil
	}
	return "", invalid("find state folder", []Problem{{ID: ErrStateDir, Key: SettingState,
		Message: "neither WINDLASS_STATE, XDG_STATE_HOME nor HOME says where it is", Remedy: "set WINDLASS_STATE to a folder of your own"}})
}

// StateDir returns the state folder, which is there afterwards: it is made
// with mode 0700. One that belongs to someone else, or that others may write
// to, is refused.
func (c *Config) StateDir() (string, error) {
	path, err := c.StatePath()
	if err != nil {
		return "", err
	}
	return path, MakePrivateDir(path, c.values[SettingState].origin)
}

// StateDirToRead is StateDir for what only reads: a folder that this user can't
// write to may be anybody's, since all that is asked is what it says.
func (c *Config) StateDirToRead() (string, error) {
	path, err := c.StatePath()
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() && !writable(path) {
		return path, nil
	}
	return c.StateDir()
}

// MakePrivateDir makes a folder of mode 0700 and its parents, or checks that
// the one that is there belongs to this user and nobody else may write to it.
// From is where the path comes from, for the error.
func MakePrivateDir(path string, from Origin) error {
	fail := func(msg, remedy string) error {
		if from.Kind == FromDefault {
			from = Origin{}
		}
		return invalid("open state folder", []Problem{{ID: ErrStateDir, Origin: from, Key: path, Message: msg, Remedy: remedy}})
	}
	const other = "or set WINDLASS_STATE to a folder of your own"
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fail("can't be made: "+reason(err), "mend that "+other)
		}
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		return fail(reason(err), "mend that "+other)
	case !info.IsDir():
		return fail("is no folder", "remove it "+other)
	}
	if who := notMine(info); who != "" {
		return fail("belongs to "+who, "chown it to yourself "+other)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 && checksModes {
		return fail(fmt.Sprintf("others may write to it (mode %04o)", mode), "run chmod 700 "+path+" "+other)
	}
	return nil
}
