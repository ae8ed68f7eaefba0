//go:build linux && ordeal

package libvirt_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt"
	"quantix/agent/state"
	"quantix/internal/fleet"
)

// childSocketEnv is an environment variable that makes a copy of the test program run one job as an agent. The value is
// the libvirt socket to use.
const childSocketEnv = "QUANTIX_TEST_AGENT_SOCKET"

// childJob is the job of the child agent. Either VM or Volume is set.
type childJob struct {
	Book      string // the PoolBook shared by the agents of the host
	VM        *fleet.VM
	Pools     []fleet.Pool
	Made      []fleet.Volref
	FirstBoot map[string][]byte
	Delete    bool // delete the VM with its disks

	Kind   fleet.JobKind
	Pool   fleet.Pool
	Source *fleet.Pool
	Name   string
	Volume *fleet.VolumeParams
	File   string // see hypervisor.VolumeWork.RecordedFile
}

// Prefixes of the lines that the child writes. The child waits for an answer to the first three kinds.
const (
	childStep   = "step "   // the step that is about to start
	childMade   = "made "   // a disk reference as JSON, to be recorded
	childWhole  = "whole "  // the file of a volume, to be recorded
	childFailed = "failed " // the error
	childDone   = "done"
)

// parentPipe sends lines to the parent process and waits for the answer to each. It is safe for concurrent use.
type parentPipe struct {
	mu  sync.Mutex
	in  *bufio.Reader
	out io.Writer
}

func (c *parentPipe) sendLine(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.out, line)
	if _, err := c.in.ReadString('\n'); err != nil {
		os.Exit(1) // the parent has ended
	}
}

// runChild is the main function of the child.
func runChild(socket string) error {
	c := &parentPipe{in: bufio.NewReader(os.Stdin), out: os.Stdout}
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o childJob
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	known, err := state.OpenPoolRecords(o.Book)
	if err != nil {
		return err
	}
	ctx := context.Background()
	hv, err := libvirt.Open(ctx, libvirt.Options{Socket: socket, Log: slog.New(slog.DiscardHandler), PoolRoots: tempDirRoots, PoolBook: known})
	if err == nil {
		err = o.run(ctx, hv, c)
	}
	if err != nil {
		fmt.Println(childFailed + strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	fmt.Println(childDone)
	return nil
}

// run runs the job as an agent does and reports its steps to c, which may be nil.
func (o childJob) run(ctx context.Context, hv hypervisor.Hypervisor, c *parentPipe) error {
	tell := func(line string) {
		if c != nil {
			c.sendLine(line)
		}
	}
	progress := func(_ int, note string) { tell(childStep + note) }
	if o.Delete {
		return hv.DeleteVM(ctx, *o.VM, o.Pools, true)
	}
	if o.VM != nil {
		return hv.ApplyVM(ctx, hypervisor.ApplyWork{
			VM: *o.VM, Pools: o.Pools, CreatedDisks: o.Made, Progress: progress,
			FirstBoot: func(context.Context) (map[string][]byte, error) {
				tell(childStep + "fetching the first-boot data")
				return o.FirstBoot, nil
			},
			RecordDisk: func(ref fleet.Volref) error {
				text, err := json.Marshal(ref)
				tell(childMade + string(text))
				return err
			},
		})
	}
	in := hypervisor.VolumeWork{
		Pool: o.Pool, Name: o.Name, Params: *o.Volume, SourcePool: o.Source, RecordedFile: o.File, Progress: progress,
		RecordFile:      func(file string) error { tell(childWhole + file); return nil },
		RecordChecksums: func(...hypervisor.VolumeChecksum) error { tell(childStep + "recording the checksum"); return nil },
	}
	switch o.Kind {
	case fleet.VolumeCopy:
		return hv.CopyVolume(ctx, in)
	case fleet.VolumeConvert:
		return hv.ConvertVolume(ctx, in)
	case fleet.VolumeDelete:
		return hv.DeleteVolume(ctx, in)
	}
	return fmt.Errorf("unknown kind of job %q", o.Kind)
}

// childRun is a running child.
type childRun struct {
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string // closed when the child ends
}

func startChild(t *testing.T, socket string, o childJob) *childRun {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childSocketEnv+"="+socket)
	cmd.Stderr = os.Stderr
	in := must(cmd.StdinPipe())
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &childRun{cmd: cmd, in: in, lines: make(chan string)}
	go func() {
		defer close(r.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			r.lines <- s.Text()
		}
	}()
	fmt.Fprintf(in, "%s\n", must(json.Marshal(o)))
	return r
}

func (r *childRun) answer() { fmt.Fprintln(r.in) }

// drain drains the child's output and waits for its end.
func (r *childRun) drain() {
	for range r.lines { //nolint:revive // drain
	}
	_ = r.cmd.Wait() // usually it was killed
}
