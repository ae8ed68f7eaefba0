package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"quantix/agent"
	"quantix/internal/config"
	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/doctor"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

func newLab() *cobra.Command {
	var f demoLabFlags
	var apart, upgrades bool
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Run a portal with two real libvirt hosts on this machine",
		Long: `Install what is missing (Debian's packages), then run a portal and two real libvirt hosts on this machine, each with its
own libvirtd, agent and guests, a pool that both share, and one VM. Needs root on Linux. Ctrl-C stops the whole lab.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := runLab(cmd.Context(), f, labOptions{apart, upgrades}, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil // Ctrl-C during the start
			}
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&apart, "apart", false, "give each host its own network, with a switch between the networks: for overlays and bridges on devices")
	cmd.Flags().BoolVar(&upgrades, "upgrades", false, "let the portal upgrade the hosts' agents: offer the releases in releases below the data directory, signed with its release.key")
	return cmd
}

// labOptions are the options of a lab.
type labOptions struct {
	apart    bool // each host has its own network
	upgrades bool // the portal can upgrade the hosts' agents
}

// labHost is one host of the lab, with a real libvirt.
type labHost struct {
	*lab.Host
	name  string
	dir   string
	pools []string // additional directories that the agent allows for pools
	id    fleet.HostID
	// program is the file of the agent's program; empty: that of this process
	program    string
	upgradeKey string // public key of releases that the agent trusts; empty: none
}

func runLab(ctx context.Context, f demoLabFlags, o labOptions, out, progress io.Writer) (err error) {
	if err := prepareLab(ctx, progress); err != nil {
		return err
	}
	dir, remove, err := f.openDataDir("lab")
	if err != nil {
		return err
	}
	defer remove()
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	report := func(text string, args ...any) { fmt.Fprintf(progress, text+"\n", args...) }
	report("Starting the portal, two libvirt hosts and a guest image …")
	log := newLog(f.log, progress)
	var hostSwitch *lab.Switch
	if o.upgrades {
		f.agentReleases = filepath.Join(dir, "releases")
	}
	if o.apart {
		if hostSwitch, err = lab.NewSwitch(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, hostSwitch.Close()) }()
		f.agents = hostSwitch.Address()
	}
	p, err := f.startPortal(ctx, dir, log)
	if err != nil {
		return err
	}
	defer p.Close()

	shared := filepath.Join(dir, "shared")
	pools := []string{shared, filepath.Join(dir, "pools")}
	for _, dir := range pools { // the directories may exist from an earlier lab
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil {
			return fmt.Errorf("create the directories of pools: %w", err)
		}
	}
	hosts := []*labHost{{name: "host-1", dir: filepath.Join(dir, "h1"), pools: pools}, {name: "host-2", dir: filepath.Join(dir, "h2"), pools: pools}}
	defer func() { err = errors.Join(err, stopHosts(hosts)) }()
	start, startCtx := errgroup.WithContext(ctx)
	for i, h := range hosts {
		start.Go(func() (err error) {
			h.Host, err = lab.StartHost(startCtx, lab.Options{Dir: h.dir, Name: h.name, Index: i, SharedDirs: []string{shared}, Switch: hostSwitch, Peers: []string{"host-1", "host-2"}, Log: log})
			return err
		})
	}
	start.Go(func() error { return copyImages(startCtx, lab.CacheDir(), shared) })
	if err := start.Wait(); err != nil {
		return err
	}

	s, err := newSetup(ctx, p)
	if err != nil {
		return err
	}
	agents, stopAgents := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stopAgents()
	if o.upgrades {
		if err := prepareUpgrades(dir, hosts); err != nil {
			return err
		}
	}
	for _, h := range hosts {
		if err := s.joinLabHost(ctx, h); err != nil {
			return err
		}
		running.Go(func() {
			superviseAgent(agents, h.name, func() error { return h.runAgent(agents, p.AgentURL) }, h.agentLogPath(), progress)
		})
	}
	if err := s.createLabFleet(ctx, hosts, shared); err != nil {
		return err
	}
	r, err := s.readyReport(ctx, []readyHost{{hosts[0].name, hosts[0].URI()}, {hosts[1].name, hosts[1].URI()}})
	if err != nil {
		return err
	}
	if err := r.print(out, f.json, labHints(hosts)); err != nil {
		return err
	}
	return p.Wait(ctx)
}

func labHints(hosts []*labHost) []string {
	return []string{
		"Try:  open the VM hello and its console, and type something;",
		"      create a VM from the image tiny-guest.qcow2 in the pool shared;",
		"      or change VMs with virsh and watch the page update:",
		"      virsh -c '" + hosts[0].URI() + "' list --all",
	}
}

// prepareLab installs missing packages if it runs as root. It returns an error if this machine does not support the
// lab.
func prepareLab(ctx context.Context, progress io.Writer) error {
	if os.Geteuid() == 0 && !doctor.AllRequiredOK(doctor.Inspect(ctx, doctor.Lab)) {
		fmt.Fprintln(progress, "Installing what the lab needs …")
		if err := doctor.InstallMissingPackages(ctx, doctor.Lab, progress); err != nil {
			return err
		}
	}
	return lab.Supported()
}

// copyImages builds the images of the tiny guest system and copies them into the shared pool's directory.
func copyImages(ctx context.Context, cache, shared string) error {
	files, err := lab.GuestImage(ctx, cache)
	if err != nil {
		return err
	}
	for name, from := range map[string]string{"tiny-guest.qcow2": files.Disk, "tiny-guest.iso": files.ISO} {
		if err := copyFile(filepath.Join(shared, name), from); err != nil {
			return fmt.Errorf("copy %s into the shared directory: %w", name, err)
		}
	}
	return nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// joinLabHost joins a host as an administrator would: it creates a token and runs the agent's join command on the host.
func (s *fleetSetup) joinLabHost(ctx context.Context, h *labHost) error {
	if !agent.HasJoined(h.agentDir()) {
		token, err := s.Control.CreateJoinToken(ctx, s.actor, "")
		if err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := h.Command(ctx, self, "agent", "join", "--portal", s.AgentURL, "--token-file", "-", "--name", h.name, "--data-dir", h.agentDir())
		cmd.Stdin = strings.NewReader(token.Secret)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("join %s: %w: %s", h.name, errors.Join(ctx.Err(), err), strings.TrimSpace(string(text)))
		}
	}
	id, joined, err := s.hostID(ctx, h.name)
	if err == nil && !joined {
		err = fmt.Errorf("the portal has no host %s, but the host's agent has an identity: remove %s", h.name, h.agentDir())
	}
	h.id = id
	return err
}

func (h *labHost) agentDir() string { return filepath.Join(h.dir, "agent") }

// superviseAgent runs a host's agent and restarts it when it ends, as systemd does on a real host. It waits a second before
// it reports a restart, because at the end of the lab agents may exit before ctx is cancelled.
func superviseAgent(ctx context.Context, host string, run func() error, log string, progress io.Writer) {
	for {
		err := run()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		fmt.Fprintf(progress, "The agent of %s ended (%v) and is started again. Log file: %s\n", host, err, log)
	}
}

func (h *labHost) agentLogPath() string { return filepath.Join(h.dir, "agent.log") }

func (h *labHost) runAgent(ctx context.Context, portal string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(h.agentLogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	roots := append(slices.Clone(config.PoolRoots), h.pools...)
	args := []string{"agent", "--portal", portal, "--data-dir", h.agentDir(), "--name", h.name, "--pool-roots", strings.Join(roots, ",")}
	if h.upgradeKey != "" {
		args = append(args, "--upgrade-keys", h.upgradeKey)
	}
	cmd := h.Command(ctx, cmp.Or(h.program, self), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) {
		return fmt.Errorf("%s", cmd.ProcessState)
	}
	return err
}

// createLabFleet creates the shared pool and one VM, unless they exist from an earlier run.
func (s *fleetSetup) createLabFleet(ctx context.Context, hosts []*labHost, shared string) error {
	ids := []fleet.HostID{hosts[0].id, hosts[1].id}
	if err := s.waitHosts(ctx, ids); err != nil {
		return err
	}
	pool, err := s.ensurePool(ctx, storage.CreatePool{
		Name: "shared", HostIDs: ids,
		Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: shared, Shared: true, Description: "A directory that both hosts use."},
	})
	if err != nil {
		return err
	}
	if err := s.waitPool(ctx, pool, len(ids)); err != nil {
		return err
	}
	project, err := s.ensureProject(ctx, "lab", "The objects that the lab has created.")
	if err != nil {
		return err
	}
	vms, err := s.Control.ListVMs(ctx, s.actor, fleet.Query{Limit: 1})
	if err != nil || len(vms.Items) > 0 {
		return err
	}
	if err := s.publishToAll(ctx, pool); err != nil {
		return err
	}
	for _, image := range []string{"tiny-guest.qcow2", "tiny-guest.iso"} {
		if err := s.Control.PublishImage(ctx, s.actor, control.ImageFile{PoolID: pool, Volume: image}); err != nil {
			return fmt.Errorf("publish %s: %w", image, err)
		}
	}
	vm, err := s.Control.CreateVM(ctx, s.actor, control.CreateVM{
		ProjectID: project, Name: "hello", HostID: hosts[0].id, Start: true, Labels: map[string]string{"env": "lab"},
		Description: "A tiny Linux that boots in a few seconds.",
		Spec: fleet.VMSpec{
			CPUs: 1, MemoryMiB: 256, Firmware: fleet.BIOS,
			Disks: []fleet.Disk{{PoolID: pool, Image: &fleet.Volref{PoolID: pool, Volume: "tiny-guest.qcow2"}}},
			NICs:  s.defaultNIC(ctx, hosts[0].id),
		},
	})
	if err != nil {
		return err
	}
	return waitFor(ctx, "the start of the VM hello", func() (bool, error) {
		now, err := s.Control.GetVM(ctx, s.actor, vm.ID)
		if err == nil && now.Status != nil && now.Status.Error != "" {
			err = fmt.Errorf("the VM hello did not start: %s", now.Status.Error)
		}
		return now.Phase == fleet.PhaseRunning, err
	})
}

// defaultNIC returns a NIC on the host's NAT network. Without iptables the lab has no NAT network, and defaultNIC
// returns no NIC.
func (s *fleetSetup) defaultNIC(ctx context.Context, host fleet.HostID) []fleet.NIC {
	networks, err := s.Control.NetworksOnHost(ctx, s.actor, host)
	if err != nil {
		return nil
	}
	for _, n := range networks {
		if n.Name == "default" && n.Kind == fleet.NetworkLibvirt && n.Health.Active > 0 {
			return []fleet.NIC{{Network: n.Name}}
		}
	}
	return nil
}

// ensurePool returns the ID of the pool named in.Name, and creates the pool if it is missing.
func (s *fleetSetup) ensurePool(ctx context.Context, in storage.CreatePool) (fleet.PoolID, error) {
	pools, err := s.Control.ListPools(ctx, s.actor, fleet.Query{Filter: "name:" + in.Name})
	if err != nil {
		return "", err
	}
	for _, p := range pools.Items {
		if p.Name == in.Name {
			return p.ID, nil
		}
	}
	created, err := s.Control.CreatePool(ctx, s.actor, in)
	return created.ID, err
}

func stopHosts(hosts []*labHost) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, h := range hosts {
		if h.Host == nil {
			continue
		}
		all.Go(func() {
			if err := h.Stop(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("stop %s: %w", h.name, err))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
