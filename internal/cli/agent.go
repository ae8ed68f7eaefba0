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
	"syscall"

	"github.com/spf13/cobra"

	"quantix/agent"
	"quantix/agent/fetch"
	"quantix/agent/hardware"
	"quantix/agent/healthcheck"
	"quantix/agent/hypervisor"
	"quantix/agent/libvirt"
	"quantix/agent/mock"
	"quantix/agent/pooldir"
	"quantix/agent/state"
	"quantix/agent/transfer"
	"quantix/internal/config"
	"quantix/internal/fleet"
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
			return runAgent(cmd.Context(), cfg, newLog(cfg.Log, cmd.ErrOrStderr()))
		},
	}
	config.AgentFlags(cmd.Flags())
	cmd.AddCommand(newAgentJoin(), newAgentRollback())
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

// runAgent runs a joined host's agent until ctx ends.
func runAgent(ctx context.Context, cfg config.Agent, log *slog.Logger) error {
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
	if cfg.MetricsListen != "" {
		if cfg.ExposesHost() {
			metrics.ExposeHost(agent.HostMeasurements{Host: cfg.Name, Load: hardware.NewSampler().Sample, Meter: hypervisor.Meters})
		} else {
			log.Warn("/metrics has only the agent's own metrics: for those of the host and its VMs, set metricsToken, metricsCert and metricsKey, or listen on 127.0.0.1")
		}
		if _, err := serveMetrics(ctx, cfg, metrics.Handler(), log); err != nil {
			return err
		}
	}
	links, facts, err := openNetworkDevices(cfg, client, log)
	if err != nil {
		return err
	}
	first, last, _ := config.TransferPorts(cfg.TransferPorts)
	a, err := agent.New(agent.Options{
		Identity: identity, Client: client, Hypervisor: hypervisor, Links: links, Inventory: facts.inventory, NICs: facts.nics, Load: hardware.NewSampler().Sample, Memory: hardware.Memory,
		Version: versionText(), Settings: fleet.AgentSettings{ReportInterval: cfg.ReportInterval, Labels: cfg.Labels}, Log: log, Metrics: metrics, Ports: transfer.PortRange{First: first, Last: last}, HostPower: hostPower(cfg),
		Checks: hardwareChecks(cfg),
	})
	if err != nil {
		return err
	}
	refreshInventoryOnHangup(ctx, a)
	log.Info("agent is running", "host", cfg.Name, "portal", identity.Portal())
	return a.Run(ctx)
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
