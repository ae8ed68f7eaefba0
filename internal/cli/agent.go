package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"quantix/agent"
	"quantix/agent/diagnose"
	"quantix/agent/fetch"
	"quantix/agent/hardware"
	"quantix/agent/healthcheck"
	"quantix/agent/hypervisor"
	"quantix/agent/libvirt"
	"quantix/agent/logtail"
	"quantix/agent/mock"
	"quantix/agent/pooldir"
	"quantix/agent/state"
	"quantix/agent/transfer"
	"quantix/agent/upgrade"
	"quantix/internal/config"
	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
)

func newAgent() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run this host's agent",
		Long: `Run the agent of a host that has joined a portal: the agent reports the host's state and runs jobs, through
libvirt. The agent only dials out, and never stops a VM because of the network. "quantix agent join" joins the host first.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadAgent(cmd.Flags(), os.Environ(), "")
			if err != nil {
				return err
			}
			restart, err := runAgent(cmd.Context(), cfg, newLog(cfg.Log, cmd.ErrOrStderr()))
			if handover, ok := errors.AsType[*upgrade.Handover](err); ok {
				return handover.Exec()
			}
			if err == nil && restart && cmd.Context().Err() == nil {
				err = reexecute()
			}
			return err
		},
	}
	config.AgentFlags(cmd.Flags())
	cmd.AddCommand(newAgentJoin(), newAgentRollback(), newAgentTrial(), newAgentSupervisor())
	return cmd
}

func newAgentJoin() *cobra.Command {
	var token, tokenFile string
	cmd := &cobra.Command{
		Use:   "join --portal URL --token TOKEN",
		Short: "Join this host to a portal",
		Long: `Join this host to a portal with a token from "Hosts, Add host". The host's key is created here and never leaves the host;
the token holds the fingerprint of the portal's authority, so that no other portal can answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadAgent(cmd.Flags(), os.Environ(), "")
			if err != nil {
				return err
			}
			if tokenFile != "" {
				if token, err = readSecret(tokenFile, cmd.InOrStdin()); err != nil {
					return err
				}
			}
			if token == "" || cfg.Portal == "" {
				return errors.New("give --portal and --token; the portal's page Hosts, Add host shows the whole command")
			}
			return joinHost(cmd.Context(), cfg, token, cmd)
		},
	}
	config.AgentFlags(cmd.Flags())
	cmd.Flags().StringVar(&token, "token", "", "the join token")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "read the join token from this file (\"-\": standard input), so that the process list does not show the token")
	return cmd
}

func joinHost(ctx context.Context, cfg config.Agent, token string, cmd *cobra.Command) error {
	inventory, err := hardware.Read(ctx)
	if err != nil {
		return fmt.Errorf("read this machine's hardware: %w", err)
	}
	name, err := agent.Join(ctx, agent.JoinOptions{
		Portal: cfg.Portal, Token: token, Name: cfg.Name, HostUUID: inventory.HostUUID, DataDir: cfg.DataDir,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Joined %s as %s. Start the agent: systemctl enable --now quantix-agent (or: quantix agent)\n", cfg.Portal, name)
	return nil
}

// runAgent runs a joined host's agent until ctx ends, or until the portal requests a restart.
func runAgent(ctx context.Context, cfg config.Agent, log *slog.Logger) (restart bool, err error) {
	outer := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tail := logtail.New(hostcommand.MaxLogLines, hostcommand.MaxLogBytes)
	log = slog.New(tail.Handler(log.Handler()))
	var restarts atomic.Bool
	err = runAgentOnce(ctx, cfg, log, commandParts{tail: tail, restart: func() {
		restarts.Store(true)
		stop()
		time.AfterFunc(restartAnyway, func() { // a call to the hypervisor may not return
			if outer.Err() != nil {
				return // somebody has stopped the agent since
			}
			if err := reexecute(); err != nil {
				log.Error("The agent cannot be started again, so it exits.", "error", err)
				os.Exit(1)
			}
		})
	}})
	return restarts.Load(), err
}

// restartAnyway is how long an agent that is to restart may need to stop.
const restartAnyway = 20 * time.Second

// program is the path of this program when it started. After an upgrade, the same path has the new program.
var program, programErr = os.Executable()

// reexecute replaces this process by a new run of the program, with the same arguments and environment. The process keeps
// its ID, so that systemd, or whatever else runs the agent, keeps it. It returns only if that fails.
func reexecute() error {
	if programErr != nil {
		return fmt.Errorf("find this program: %w", programErr)
	}
	if err := syscall.Exec(program, os.Args, os.Environ()); err != nil { //nolint:gosec // this program itself
		return fmt.Errorf("start %s again: %w", program, err)
	}
	return nil
}

// runAgentOnce runs a joined host's agent until ctx ends. The agent calls restart if the portal requests a restart.
func runAgentOnce(ctx context.Context, cfg config.Agent, log *slog.Logger, commands commandParts) error {
	begun := upgrade.Begin(ctx, cfg.DataDir, os.Stderr)
	return withAgent(ctx, cfg, log, begun, commands, func(a *agent.Agent, o agentParts) error {
		if cfg.MetricsListen != "" {
			if err := serveAgentMetrics(ctx, cfg, o, log); err != nil {
				return err
			}
		}
		refreshInventoryOnHangup(ctx, a)
		log.Info("agent is running", "host", cfg.Name, "portal", o.identity.Portal())
		return a.Run(ctx)
	})
}

// commandParts are what the portal's commands about the host need. An agent on trial has none.
type commandParts struct {
	tail    *logtail.Tail
	restart func()
}

// agentParts are parts of an agent that its metrics need.
type agentParts struct {
	identity   *agent.Identity
	hypervisor hypervisor.Hypervisor
	metrics    *agent.Metrics
}

func serveAgentMetrics(ctx context.Context, cfg config.Agent, o agentParts, log *slog.Logger) error {
	if cfg.ExposesHost() {
		o.metrics.ExposeHost(agent.HostMeasurements{Host: cfg.Name, Load: hardware.NewSampler().Sample, Meter: o.hypervisor.Meters})
	} else {
		log.Warn("/metrics has only the agent's own metrics: for those of the host and its VMs, set metricsToken, metricsCert and metricsKey, or listen on 127.0.0.1")
	}
	_, err := serveMetrics(ctx, cfg, o.metrics.Handler(), log)
	return err
}

// withAgent calls do with a joined host's agent, and releases what the agent uses afterwards.
func withAgent(ctx context.Context, cfg config.Agent, log *slog.Logger, begun *upgrade.Begun, commands commandParts, do func(*agent.Agent, agentParts) error) error {
	if !agent.HasJoined(cfg.DataDir) {
		return fmt.Errorf("this host has not joined a portal yet (no identity in %s): run \"quantix agent join\" with the command from Hosts, Add host", cfg.DataDir)
	}
	identity, err := agent.OpenIdentity(cfg.DataDir)
	if err != nil {
		return err
	}
	defer identity.Close()
	hypervisor, err := openHypervisor(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer hypervisor.Close()
	client, err := identity.Client(cfg.Portal)
	if err != nil {
		return err
	}
	defer client.Close()
	metrics := agent.NewMetrics(versionText())
	installer, err := newInstaller(cfg)
	if err != nil {
		return err
	}
	links, facts, err := openNetworkDevices(cfg, client, log)
	if err != nil {
		return err
	}
	first, last, _ := config.TransferPorts(cfg.TransferPorts)
	a, err := agent.New(agent.Options{
		Identity: identity, Client: client, Hypervisor: hypervisor, Links: links, Inventory: facts.inventory, NICs: facts.nics, Load: hardware.NewSampler().Sample, Memory: hardware.Memory,
		Version: versionText(), Settings: fleet.AgentSettings{ReportInterval: cfg.ReportInterval, Labels: cfg.Labels}, Log: log, Metrics: metrics, Ports: transfer.PortRange{First: first, Last: last}, HostPower: hostPower(cfg),
		Upgrades: agent.Upgrades{Installer: installer, Begun: begun},
		Restart:  commands.restart, Diagnostics: machineDiagnostics(cfg), Site: diagnose.Site{Dir: cfg.DiagnosticsDir}, ShowSettings: cfg.Show, LogTail: commands.tail,
		Checks: hardwareChecks(cfg),
	})
	if err != nil {
		return err
	}
	return do(a, agentParts{identity, hypervisor, metrics})
}

// machineDiagnostics returns the items of diagnostics of this machine. A simulated host has none.
func machineDiagnostics(cfg config.Agent) []diagnose.Item {
	if cfg.Hypervisor == "mock" {
		return nil
	}
	return diagnose.MachineItems()
}

// hardwareChecks returns the health checks of this machine's hardware. A simulated host has them, too: they only read.
func hardwareChecks(cfg config.Agent) []healthcheck.Check {
	log := &healthcheck.KernelLog{Path: cfg.KernelLog, Position: filepath.Join(cfg.DataDir, "kernel-log.json")}
	return []healthcheck.Check{
		healthcheck.Disks(healthcheck.NewProgram("smartctl")), healthcheck.Memory(), healthcheck.NICs(),
		healthcheck.GPUs(healthcheck.NewProgram("nvidia-smi"), log),
	}
}

// hostPower returns the function that reboots this machine or powers it off; nil if the settings do not allow it. A
// simulated host never touches its machine.
func hostPower(cfg config.Agent) func(context.Context, fleet.JobKind) error {
	if !cfg.HostPower || cfg.Hypervisor == "mock" {
		return nil
	}
	return agent.Systemctl
}

// refreshInventoryOnHangup lets the agent read the hardware again at each SIGHUP.
func refreshInventoryOnHangup(ctx context.Context, a *agent.Agent) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	context.AfterFunc(ctx, func() { signal.Stop(hangups) })
	go func() {
		for {
			select {
			case <-hangups:
				a.RefreshInventory()
			case <-ctx.Done():
				return
			}
		}
	}()
}

// openHypervisor opens the hypervisor that the settings name. It returns a mock only if they name it.
func openHypervisor(ctx context.Context, cfg config.Agent, log *slog.Logger) (hypervisor.Hypervisor, error) {
	roots := pooldir.PoolRoots{Allowed: cfg.PoolRoots, Forbidden: []string{cfg.DataDir}, Devices: cfg.PoolDevices}
	if cfg.Hypervisor == "mock" {
		return mock.New(mock.Options{Roots: roots}), nil
	}
	book, err := state.OpenPoolRecords(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	filters, err := state.OpenFilterDigests(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	settings := fetch.Settings{MaxBytes: int64(cfg.FetchMost) << 30}
	for _, network := range cfg.FetchFrom {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return nil, fmt.Errorf("fetchFrom: %w", err)
		}
		settings.AllowedNetworks = append(settings.AllowedNetworks, prefix)
	}
	backend, err := libvirt.Open(ctx, libvirt.Options{Socket: cfg.Libvirt.Socket, Log: log, PoolRoots: roots, PoolBook: book, Filters: filters, Downloader: fetch.New(settings)})
	if err != nil {
		return nil, err
	}
	return backend, nil
}
