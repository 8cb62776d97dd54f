package pluginhost

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// This file is compiled and vetted for each change, and was never run: there is no Windows
// among the machines that test.

// separate keeps the terminal's Ctrl-C from a command. When this process ends, the
// plugin sees the end of its standard input.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// awaitEnd leaves it to the command's own Wait.
func awaitEnd(int) bool { return false }

// tree is a job object: a process in it, and all that it starts, is killed when the last
// handle to the job is closed, also by this process's end. 0 is none.
//
// https://learn.microsoft.com/en-us/windows/win32/procthread/job-objects
type tree struct{ job windows.Handle }

// hold puts a process into a job of its own. What it has started before isn't in it. Where
// Windows refuses, the process is killed alone.
func hold(p *os.Process) tree {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return tree{}
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE}}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		err = assign(job, p.Pid)
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return tree{}
	}
	return tree{job}
}

func assign(job windows.Handle, pid int) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(h) }()
	return windows.AssignProcessToJobObject(job, h)
}

func (t tree) kill(p *os.Process) {
	if t.job != 0 {
		_ = windows.TerminateJobObject(t.job, 1)
	}
	_ = p.Kill()
}

func (t tree) release() {
	if t.job != 0 {
		_ = windows.CloseHandle(t.job)
	}
}

// alive can't be told cheaply here.
func alive(int) bool { return true }
