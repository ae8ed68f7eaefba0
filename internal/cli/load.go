package cli

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"quantix/internal/load"
)

// loadFlags holds the flags of the load command.
type loadFlags struct {
	load.Options
	tokenFile, caFile string
	self, json        bool
	pid, postgres     int
}

func newLoad() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load --self | --portal URL --token-file FILE",
		Short: "Load a portal with simulated hosts, people and browser tabs, to size a portal",
		Long: `Load a running portal and print its performance. The load consists of simulated hosts that join and use the agent protocol over mutual TLS, with VMs
created through the API, people who open pages, and browser tabs with a live list of VMs. Only the hypervisors are simulated.

The portal must have no hosts, unless --into-used-portal is given. At the end, also after Ctrl-C, the command deletes
everything that was created; the audit records stay. With --self it starts a temporary portal, with a private PostgreSQL
that flushes to the disk, in a temporary directory.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLoad(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.InOrStdin())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.self, "self", false, "start a portal for the test and stop it afterwards")
	flags.StringVar(&f.Portal, "portal", "", "the portal's `URL` for browsers and the API")
	flags.StringVar(&f.tokenFile, "token-file", "", "an administrator's API token, in this `file` (\"-\": standard input)")
	flags.StringVar(&f.caFile, "ca", "", "trust the certificates in this PEM `file` for --portal, instead of the system's")
	flags.StringVar(&f.Agents, "agents", "", "the portal's `URL` for agents (default: the URL that the portal gives new hosts)")
	flags.IntVar(&f.Hosts, "hosts", 100, "number of `hosts`")
	flags.IntVar(&f.VMs, "vms", 1000, "number of `VMs`, spread over the hosts")
	flags.IntVar(&f.Pools, "pools", 3, "number of shared `pools` on all hosts, for the VMs' disks")
	flags.Float64Var(&f.Change, "change", 0, "number of `VMs` whose address changes, per second")
	flags.BoolVar(&f.WithoutSamples, "without-metrics", false, "leave the metrics out of the hosts' reports, to compare the cost")
	flags.IntVar(&f.Tabs, "tabs", 0, "number of browser `tabs` with a live list of VMs")
	flags.IntVar(&f.People, "people", 4, "number of `people` who open one page after the other")
	flags.DurationVar(&f.Pause, "pause", time.Second, "how long a person looks at a page")
	flags.DurationVar(&f.For, "for", time.Minute, "duration of the measurement, once all hosts and VMs exist")
	flags.DurationVar(&f.Report, "tell", 5*time.Second, "interval of progress messages")
	flags.IntVar(&f.pid, "pid", 0, "process ID of the portal on this machine: report its resource use and that of its private PostgreSQL")
	flags.IntVar(&f.postgres, "postgres-pid", 0, "process ID of PostgreSQL's first process on this machine, if it is not the portal's private one")
	flags.StringVar(&f.Database, "seed-database", "", "write the VMs directly into the portal's database at this `URL`, which is faster than 100,000 API calls; with --self, any value")
	flags.BoolVar(&f.AllowUsed, "into-used-portal", false, "continue if the portal has other hosts")
	flags.BoolVar(&f.Keep, "keep", false, "keep the created hosts, pools and VMs")
	flags.BoolVar(&f.json, "json", false, "print the figures as JSON")
	return cmd
}

func runLoad(ctx context.Context, f loadFlags, out, progress io.Writer, in io.Reader) (err error) {
	// A second Ctrl-C ends the program without cleanup.
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	f.Out = progress
	switch {
	case f.self && (f.Portal != "" || f.tokenFile != "" || f.pid != 0 || f.Keep):
		return errors.New("--self starts a temporary portal: leave out --portal, --token-file, --pid and --keep")
	case f.self:
		p, err := startLoadPortal(ctx, progress)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.stop()) }()
		f.Portal, f.Token, f.pid, f.postgres, f.SkipCleanup = p.url, p.token, p.cmd.Process.Pid, p.postgres, true
		if f.Database != "" {
			f.Database = p.database
		}
	case f.Portal == "" || f.tokenFile == "":
		return errors.New("give --portal and --token-file (an administrator's, from Account, Tokens), or --self for a temporary portal")
	default:
		if f.Token, err = readSecret(f.tokenFile, in); err != nil {
			return err
		}
	}
	if f.caFile != "" {
		text, err := os.ReadFile(f.caFile)
		if f.Roots = x509.NewCertPool(); err != nil || !f.Roots.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s contains no certificates: %w", f.caFile, err)
		}
	}
	if f.pid != 0 {
		f.Portals = load.SingleProcess(f.pid)
		if f.postgres == 0 {
			f.postgres = load.PostgresPID(f.pid)
		}
	}
	if f.postgres != 0 {
		f.Postgres = load.ProcessTree(f.postgres)
	}
	figures, err := load.Run(ctx, f.Options)
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(out).Encode(figures)
	}
	_, err = fmt.Fprintln(out, figures.Table())
	return err
}
