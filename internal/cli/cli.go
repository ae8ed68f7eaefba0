// Package cli contains the program's commands, one per file. A command only connects other packages.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"quantix/internal/config"
	"quantix/internal/fleet"
)

// Version is the program's version. Releases set it by -ldflags "-X quantix/internal/cli.Version=…".
var Version = "dev"

// Main runs the command line and returns the exit status.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "quantix:", err)
		var refused *fleet.Error
		if errors.As(err, &refused) && len(refused.Fields) > 1 {
			for _, f := range refused.Fields {
				fmt.Fprintf(os.Stderr, "  %s: %s\n", f.Field, f.Message)
			}
		}
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "quantix",
		Short: "A vCenter for plain KVM hosts",
		Long: `Quantix manages the virtual machines, storage and networks of plain Linux hosts that run libvirt.

Run "quantix portal" on one machine, and "quantix agent" on every host. To look around first: "quantix demo" shows
simulated hosts on any computer, "quantix lab" real libvirt hosts on this Linux machine.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(newPortal(), newAgent(), newDemo(), newLab(), newLoad(), newDoctor(), newUser(), newHost(), newRelease(), newVersion())
	return root
}

// newLog returns a logger that writes to a command's standard error.
func newLog(c config.Log, to io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // config has already validated the level
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, o))
	}
	return slog.New(slog.NewTextHandler(to, o))
}
