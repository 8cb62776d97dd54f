package fake

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/windlass-run/windlass/sdk"
)

// workload returns the newest version in memory.
func (m *memory) workload(path sdk.WorkloadPath) (*deployment, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workloadMap[path], nil
}

func (m *memory) putWorkload(d *deployment) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var have int64
	if old := m.workloadMap[d.Path]; old != nil {
		have = old.Version
	}
	if d.Version != have+1 {
		return false, nil
	}
	m.workloadMap[d.Path] = d
	return true, nil
}

func (m *memory) workloads() ([]*deployment, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*deployment
	for _, d := range m.workloadMap {
		out = append(out, d)
	}
	return sortWorkloads(out), nil
}

func sortWorkloads(list []*deployment) []*deployment {
	slices.SortFunc(list, func(a, b *deployment) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

// In a folder a version is the file workloads/HEX OF THE PATH/NUMBER, which is
// linked into place whole, so that one of two changes wins.
func (f *folder) workload(path sdk.WorkloadPath) (*deployment, error) {
	return f.newest(fmt.Sprintf("%x", string(path)))
}

func (f *folder) newest(dir string) (*deployment, error) {
	entries, err := os.ReadDir(f.path("workloads", dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var top int64
	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil {
			top = max(top, n)
		}
	}
	if top == 0 {
		return nil, nil
	}
	d := &deployment{}
	ok, err := read(f.path("workloads", dir, strconv.FormatInt(top, 10)), d)
	if err != nil || !ok {
		return nil, err
	}
	return d, nil
}

func (f *folder) putWorkload(d *deployment) (bool, error) {
	dir := f.path("workloads", fmt.Sprintf("%x", string(d.Path)))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	have, err := f.workload(d.Path)
	if err != nil {
		return false, err
	}
	var n int64
	if have != nil {
		n = have.Version
	}
	if d.Version != n+1 {
		return false, nil
	}
	return f.writeOnce(dir+string(os.PathSeparator)+strconv.FormatInt(d.Version, 10), d)
}

func (f *folder) workloads() ([]*deployment, error) {
	entries, err := os.ReadDir(f.path("workloads"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []*deployment
	for _, e := range entries {
		d, err := f.newest(e.Name())
		if err != nil {
			return nil, err
		}
		if d != nil {
			out = append(out, d)
		}
	}
	return sortWorkloads(out), nil
}
