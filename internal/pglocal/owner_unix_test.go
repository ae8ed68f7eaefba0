//go:build unix

package pglocal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestStartAdoptsServerOfKilledPortal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helper, pid := startHelper(t, dir, false)
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = helper.Wait()
	s := startTestServer(t, dir)
	if s.Pid() != pid {
		t.Errorf("a new server (pid %d) was started, want the running one (%d) adopted", s.Pid(), pid)
	}
	if got := queryValue[string](t, s, "SELECT 'answers'"); got != "answers" {
		t.Errorf("got %q", got)
	}
	if err := s.Stop(contextWithDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if isRunning(pid) {
		t.Errorf("the adopted server (pid %d) is still there after Stop", pid)
	}
}

func TestServerDiesWithParent(t *testing.T) {
	t.Parallel()
	if !inheritedPaths {
		t.Skip("only Linux has a death signal")
	}
	dir := t.TempDir()
	helper, pid := startHelper(t, dir, true)
	if file, ok := readPidFile(filepath.Join(dir, "pgdata")); ok {
		t.Cleanup(func() { _ = os.RemoveAll(file.socketDir) })
	}
	_ = helper.Process.Kill()
	_ = helper.Wait()
	if err := poll(contextWithDeadline(t), func() (bool, error) { return !isRunning(pid), nil }); err != nil {
		t.Errorf("the server (pid %d) outlived its parent: %v", pid, err)
	}
}

func TestDataDirectoryHasOneOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helper, pid := startHelper(t, dir, false)
	_, err := Start(contextWithDeadline(t), Options{Dir: dir, DieWithParent: true})
	if want := fmt.Sprintf("belongs to process %d", helper.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
	guest, err := StartOrReuse(contextWithDeadline(t), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got := queryValue[string](t, guest, "SHOW fsync"); got != "off" || guest.Pid() != pid {
		t.Errorf("a second user sees the server %d with fsync %s, want the owner's", guest.Pid(), got)
	}
	if err := guest.Stop(contextWithDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if !isRunning(pid) {
		t.Fatal("a second user stopped the owner's server")
	}

	_ = helper.Process.Kill()
	_ = helper.Wait()
	if guest, err = StartOrReuse(contextWithDeadline(t), Options{Dir: dir, Unsafe: true}); err != nil {
		t.Fatal(err)
	}
	if err := guest.Stop(contextWithDeadline(t)); err != nil || !isRunning(pid) {
		t.Errorf("a user of a server without an owner: %v; it runs: %t", err, isRunning(pid))
	}
	s := startTestServer(t, dir)
	if s.Pid() != pid {
		t.Errorf("the next owner has the server %d, want %d adopted", s.Pid(), pid)
	}
	if err := s.Stop(contextWithDeadline(t)); err != nil {
		t.Fatal(err)
	}
	if guest, err = StartOrReuse(contextWithDeadline(t), Options{Dir: dir, Unsafe: true, DieWithParent: true}); err != nil {
		t.Fatal(err)
	}
	if err := guest.Stop(contextWithDeadline(t)); err != nil || isRunning(guest.Pid()) {
		t.Errorf("a second user leaves the server that it started: %v, %t", err, isRunning(guest.Pid()))
	}
}

func TestStalePidFileOfAnotherProgramIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "pgdata")
	helper, pid := startHelper(t, dir, false)
	_ = helper.Process.Kill()
	_ = helper.Wait()
	file, ok := readPidFile(data)
	if !ok {
		t.Fatal("the server has no pid file")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// After a reboot, another program of the same user may have the PID.
	other := exec.Command("sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{}
	if o, err := dataOwner(data); err == nil && os.Getuid() == 0 {
		other.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	for _, path := range []string{filepath.Join(data, "postmaster.pid"), filepath.Join(file.socketDir, ".s.PGSQL."+port+".lock")} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "\n")
		if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n%s", other.Process.Pid, rest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s := startTestServer(t, dir); s.Pid() == other.Process.Pid {
		t.Error("adopted a program that is no server")
	}
}

func TestServerWithoutFsyncIsNotAdopted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helper, pid := startHelper(t, dir, false)
	_ = helper.Process.Kill()
	_ = helper.Wait()
	s, err := Start(contextWithDeadline(t), Options{Dir: dir, DieWithParent: true, MaxConnections: 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	if s.Pid() == pid || queryValue[string](t, s, "SHOW fsync") != "on" || queryValue[string](t, s, "SHOW max_connections") != "20" {
		t.Error("the server still runs without fsync")
	}
}
