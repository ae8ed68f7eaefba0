package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"quantix/agent"
	"quantix/agent/logtail"
	"quantix/agent/mock"
	"quantix/internal/control"
	"quantix/internal/control/network"
	"quantix/internal/control/storage"
	"quantix/internal/doctor"
	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
)

func newDemo() *cobra.Command {
	var f demoLabFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a portal with three simulated hosts and forty VMs",
		Long: `Run a portal with three simulated hosts and forty VMs. The demo needs PostgreSQL's binaries, but not root. The portal,
its database and the agents are real; only the hypervisor is simulated. With --data-dir the next start restores
the demo; without it, no data stays.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := runDemo(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil // Ctrl-C during the start
			}
			return err
		},
	}
	f.register(cmd)
	return cmd
}

func runDemo(ctx context.Context, f demoLabFlags, out, progress io.Writer) (err error) {
	if os.Geteuid() == 0 && !doctor.AllRequiredOK(doctor.Inspect(ctx, doctor.Demo)) {
		fmt.Fprintln(progress, "Installing what the demo needs …")
		if err := doctor.InstallMissingPackages(ctx, doctor.Demo, progress); err != nil {
			return err
		}
	}
	dir, remove, err := f.openDataDir("demo")
	if err != nil {
		return err
	}
	defer remove()
	log := newLog(f.log, progress)
	fmt.Fprintln(progress, "Starting the portal and three simulated hosts …")
	p, err := f.startPortal(ctx, dir, log)
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := newSetup(ctx, p)
	if err != nil {
		return err
	}
	agents, stopAgents := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stopAgents()

	storage := mock.NewStorage()
	hosts := make([]readyHost, len(demoHosts))
	ids := make([]fleet.HostID, len(demoHosts))
	for i, o := range demoHosts {
		o.SharedStorage, o.Delay, o.Images = storage, 400*time.Millisecond, demoImages
		if ids[i], err = s.startMockHost(agents, filepath.Join(dir, o.Name), o, log, &running); err != nil {
			return err
		}
		hosts[i].Name = o.Name
	}
	if err := s.createDemoFleet(ctx, ids); err != nil {
		return err
	}
	r, err := s.readyReport(ctx, hosts)
	if err != nil {
		return err
	}
	if err := r.print(out, f.json, []string{
		"Everything but the hypervisor is real. Try: start, stop and edit VMs, open a console, look at the pool that",
		"one host cannot mount, and at the VM whose guest ignores the power button.",
	}); err != nil {
		return err
	}
	return p.Wait(ctx)
}

// startMockHost joins a simulated host and runs its agent in this process. The agent uses mutual TLS, like a real one.
func (s *fleetSetup) startMockHost(ctx context.Context, dir string, o mock.Options, log *slog.Logger, running *sync.WaitGroup) (fleet.HostID, error) {
	host, joined := mock.New(o), agent.HasJoined(dir)
	if !joined {
		token, err := s.Control.CreateJoinToken(ctx, s.actor, "")
		if err != nil {
			return "", err
		}
		inventory, err := host.Inventory(ctx)
		if err != nil {
			return "", err
		}
		_, err = agent.Join(ctx, agent.JoinOptions{
			Portal: s.AgentURL, Token: token.Secret, Name: o.Name, HostUUID: inventory.HostUUID, DataDir: dir,
		})
		if err != nil {
			return "", err
		}
	}
	identity, err := agent.OpenIdentity(dir)
	if err != nil {
		return "", err
	}
	if joined {
		if err := s.restoreHost(ctx, host, identity.HostID(), o.Name); err != nil {
			return "", errors.Join(err, identity.Close())
		}
	}
	client, err := identity.Client(s.AgentURL)
	if err != nil {
		return "", errors.Join(err, identity.Close())
	}
	tail := logtail.New(hostcommand.MaxLogLines, hostcommand.MaxLogBytes)
	start := func() (run func() error, err error) {
		ctx, restart := context.WithCancel(ctx)
		a, err := agent.New(agent.Options{
			Identity: identity, Client: client, Hypervisor: host, Inventory: host.Inventory, NICs: host.NICs, Load: host.Load, Memory: host.Memory,
			Version: versionText(), Log: slog.New(tail.Handler(log.Handler())).With("host", o.Name), LogTail: tail, Restart: restart,
		})
		if err != nil {
			restart()
			return nil, err
		}
		return func() error {
			defer restart()
			return a.Run(ctx)
		}, nil
	}
	run, err := start()
	if err != nil {
		client.Close()
		return "", errors.Join(err, identity.Close())
	}
	running.Go(func() {
		defer identity.Close()
		defer client.Close()
		err := run()
		for err == nil && ctx.Err() == nil { // the portal requested a restart
			if run, err = start(); err == nil {
				err = run()
			}
		}
		if err != nil {
			log.Error("a simulated host's agent ended", "host", o.Name, "error", err)
		}
	})
	return identity.HostID(), nil
}

// createDemoFleet creates projects, pools, networks and forty VMs through the control API, and waits until the last VM
// exists.
func (s *fleetSetup) createDemoFleet(ctx context.Context, hosts []fleet.HostID) error {
	if err := s.waitHosts(ctx, hosts); err != nil {
		return err
	}
	pools := make([]fleet.PoolID, len(demoPools))
	for i, p := range demoPools {
		in := storage.CreatePool{Name: p.name, Spec: p.spec}
		for _, h := range p.hosts {
			in.HostIDs = append(in.HostIDs, hosts[h])
		}
		var err error
		if pools[i], err = s.ensurePool(ctx, in); err != nil {
			return err
		}
	}
	for i, p := range demoPools {
		if err := s.waitPool(ctx, pools[i], p.healthy); err != nil {
			return err
		}
	}
	vms, err := s.Control.ListVMs(ctx, s.actor, fleet.Query{Limit: 1})
	if err != nil || len(vms.Items) > 0 {
		return err
	}
	for _, n := range demoNetworks {
		in := network.CreateNetwork{Name: n.name, Spec: n.spec}
		for _, h := range n.hosts {
			in.HostIDs = append(in.HostIDs, hosts[h])
		}
		if _, err := s.Control.CreateNetwork(ctx, s.actor, in); err != nil {
			return fmt.Errorf("define the network %s: %w", n.name, err)
		}
	}
	if err := s.publishToAll(ctx, pools...); err != nil {
		return err
	}
	for _, image := range demoImages {
		if err := s.Control.PublishImage(ctx, s.actor, control.ImageFile{PoolID: pools[0], Volume: image.Name}); err != nil {
			return fmt.Errorf("publish %s: %w", image.Name, err)
		}
	}
	var last fleet.VMID
	for i, vm := range demoVMs {
		project, err := s.ensureProject(ctx, vm.project, "")
		if err != nil {
			return err
		}
		created, err := s.Control.CreateVM(ctx, s.actor, vm.createRequest(project, hosts[i%len(hosts)], pools[0]))
		if err != nil {
			return fmt.Errorf("create the VM %s: %w", vm.name, err)
		}
		last = created.ID
	}
	return waitFor(ctx, "the creation of the VMs", func() (bool, error) {
		vm, err := s.Control.GetVM(ctx, s.actor, last)
		return err == nil && vm.ObservedGeneration > 0, err
	})
}
