//go:build linux

package lab

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed supervisor.sh
var supervisorScript string

// Host is one running lab host. Its methods may be called from several goroutines.
type Host struct {
	opts Options
	log  *slog.Logger
	uuid string
	slot *slot

	supervisor *exec.Cmd
	hold       io.Closer // stdin of the supervisor; the host exists while it is open
	// gone is closed once no process runs inside the host. gone and hold are set once the supervisor has started.
	gone chan struct{}

	stop    sync.Once
	stopErr error
}

// StartHost starts a host and returns when its libvirtd answers. ctx limits only the start; end the host with Stop. The
// machine must have what Supported checks. If a NAT network fails to start, the failure is logged and is no error.
func StartHost(ctx context.Context, o Options) (*Host, error) {
	h, err := startHost(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start lab host %q: %w", o.Name, err)
	}
	return h, nil
}

func startHost(ctx context.Context, o Options) (*Host, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	slot, err := takeSlot(ctx, o.Index, o.Dir, loggerOf(o))
	if err != nil {
		return nil, err
	}
	h := &Host{opts: o, log: loggerOf(o).With("host", o.Name), slot: slot, gone: make(chan struct{})}
	if err := h.start(ctx); err != nil {
		err = errors.Join(err, h.Stop(context.WithoutCancel(ctx)))
		return nil, err
	}
	return h, nil
}

func (h *Host) start(ctx context.Context) error {
	var err error
	if h.uuid, err = prepareDir(h.opts, h.slot); err != nil {
		return err
	}
	if err := h.startSupervisor(ctx); err != nil {
		return err
	}
	if h.opts.Switch != nil {
		if err := h.connectToSwitch(ctx); err != nil {
			return fmt.Errorf("connect the host to its switch: %w", err)
		}
	}
	if out, err := h.Command(ctx, "virtlogd", "-d", "--pid-file", "/run/libvirt/virtlogd.pid").CombinedOutput(); err != nil {
		return fmt.Errorf("start virtlogd: %w: %s", errors.Join(ctx.Err(), err), strings.TrimSpace(string(out)))
	}
	if err := h.StartLibvirtd(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(h.opts.Dir, "run/network/default.xml")); err != nil {
		h.log.Warn("The lab host's NAT network did not start; its guests have no network.", "log", filepath.Join(h.opts.Dir, "log/libvirtd.log"))
	}
	return nil
}

// startSupervisor creates the namespaces, with supervisor.sh as their PID 1.
func (h *Host) startSupervisor(ctx context.Context) (err error) {
	network, flags := "", uintptr(syscall.CLONE_NEWNS|syscall.CLONE_NEWUTS|syscall.CLONE_NEWPID)
	if h.opts.Switch != nil {
		network, flags = "own", flags|syscall.CLONE_NEWNET
	}
	cmd := exec.Command("bash", "-c", supervisorScript, "supervisor", h.opts.Dir, h.opts.Name, h.slot.cgroup(), network)
	cmd.Env = commandEnvironment(h.opts.Env)
	// In its own session the host does not receive Ctrl-C. This program receives it and then stops the host.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Setsid: true}
	cmd.ExtraFiles = []*os.File{h.slot.file}
	errLog, err := os.Create(filepath.Join(h.opts.Dir, "log/supervisor.log"))
	if err != nil {
		return err
	}
	defer errLog.Close()
	cmd.Stderr = errLog
	hold, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, input, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()
	cmd.Stdout = input
	err = cmd.Start()
	input.Close()
	if err != nil {
		return fmt.Errorf("create namespaces: %w", err)
	}
	h.supervisor, h.hold = cmd, hold
	go func() {
		_ = cmd.Wait() // the exit status does not matter
		close(h.gone)
	}()
	defer context.AfterFunc(ctx, func() { _ = output.SetReadDeadline(time.Now()) })() // ends the read below
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		why, _ := os.ReadFile(errLog.Name()) // best effort: the text extends the error
		return fmt.Errorf("mount the host's directories: %w: %s", errors.Join(ctx.Err(), err), strings.TrimSpace(string(why)))
	}
	return nil
}

// HostUUID returns the host's UUID as libvirt reports it. It is the same for each start with the same Dir.
func (h *Host) HostUUID() string { return h.uuid }

// Socket returns the path of libvirtd's socket, for programs outside the host.
func (h *Host) Socket() string { return filepath.Join(h.opts.Dir, "run/libvirt-sock") }

// URI returns the libvirt URI of the host for programs outside it. Inside the host the URI is qemu:///system.
func (h *Host) URI() string { return "qemu+unix:///system?socket=" + h.Socket() }

// Stop ends the host's networks, guests, daemons and namespaces. Only the files in its Dir remain. Further calls return
// the result of the first call. When ctx is done, Stop kills the remaining processes.
func (h *Host) Stop(ctx context.Context) error {
	h.stop.Do(func() {
		if err := h.stopAll(ctx); err != nil {
			h.stopErr = fmt.Errorf("stop lab host %q: %w", h.opts.Name, err)
		}
	})
	return h.stopErr
}

func (h *Host) stopAll(ctx context.Context) error {
	var errs []error
	if h.hold != nil {
		h.hold.Close() // the supervisor ends when its stdin closes
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		select {
		case <-h.gone:
		case <-ctx.Done():
			_ = h.supervisor.Process.Kill() // fails only if it has ended meanwhile
		}
		select {
		case <-h.gone:
		case <-time.After(10 * time.Second):
			errs = append(errs, fmt.Errorf("process %d did not exit after SIGKILL", h.supervisor.Process.Pid))
		}
		if h.opts.Switch != nil {
			errs = append(errs, h.waitForNICRemoval(5*time.Second))
		}
		saveCapabilities(h.opts.Dir)
	}
	return errors.Join(append(errs, h.slot.release(h.opts.Dir, h.log))...)
}

func loggerOf(o Options) *slog.Logger {
	if o.Log != nil {
		return o.Log
	}
	return slog.Default()
}
