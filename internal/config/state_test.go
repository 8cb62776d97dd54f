package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestStatePath(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"WINDLASS_STATE=" + filepath.Join(dir, "s"), "HOME=" + home}, filepath.Join(dir, "s")},
		{[]string{"WINDLASS_STATE=rel/s", "HOME=" + home}, filepath.Join(dir, "rel", "s")},
		{[]string{"XDG_STATE_HOME=" + filepath.Join(dir, "x"), "HOME=" + home}, filepath.Join(dir, "x", "windlass")},
		{[]string{"XDG_STATE_HOME=relative", "HOME=" + home}, filepath.Join(home, ".local", "state", "windlass")},
		{[]string{"WINDLASS_STATE=", "HOME=" + home}, filepath.Join(home, ".local", "state", "windlass")},
	} {
		got, err := load(t, LoadRequest{Env: env(c.env...), Dir: dir}).StatePath()
		if err != nil || got != c.want {
			t.Errorf("%q: %s, %v; want %s", c.env, got, err, c.want)
		}
	}
	_, err := load(t, LoadRequest{Env: env(), Dir: dir}).StatePath()
	if ps := ProblemsOf(err); len(ps) != 1 || ps[0].ID != ErrStateDir || !strings.Contains(err.Error(), "set WINDLASS_STATE") {
		t.Errorf("without a home: %v", err)
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("the path was made by asking for it")
	}
}

func TestStateDir(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing there")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "state")
	open := func() error {
		_, err := load(t, LoadRequest{Env: env("WINDLASS_STATE=" + path)}).StateDir()
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(p)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, %v", p, info.Mode(), err)
		}
	}
	want := func(text string) {
		t.Helper()
		err := open()
		if ps := ProblemsOf(err); len(ps) != 1 || ps[0].ID != ErrStateDir || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	for _, mode := range []os.FileMode{0o770, 0o702, 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		want("run chmod 700 " + path)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Errorf("a folder that others may only read is refused: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		want("belongs to user 12345")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, "")
	want("is no folder")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a"), "")
	want("not a directory")
}
