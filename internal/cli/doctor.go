package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quantix/internal/doctor"
)

func newDoctor() *cobra.Command {
	install := false
	var names []string
	for _, p := range doctor.Purposes() {
		names = append(names, string(p))
	}
	cmd := &cobra.Command{
		Use:   "doctor [" + strings.Join(names, "|") + "]",
		Short: "List what this machine lacks, and install it",
		Long: `Say what this machine lacks for a purpose: to run a portal (the default), an agent, the demo, the lab, the tests, or
the benchmarks. With --install, as root on Debian or Ubuntu, the missing packages are installed; elsewhere it names the command.`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			purpose := doctor.Portal
			if len(args) == 1 {
				purpose = doctor.Purpose(args[0])
			}
			if install {
				if err := doctor.InstallMissingPackages(cmd.Context(), purpose, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			checks := doctor.Inspect(cmd.Context(), purpose)
			if err := doctor.PrintChecks(cmd.OutOrStdout(), checks); err != nil {
				return err
			}
			if !doctor.AllRequiredOK(checks) {
				return fmt.Errorf("this machine is not ready for the %s; \"quantix doctor %[1]s --install\" installs what is missing", purpose)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&install, "install", false, "install what is missing (root on Debian or Ubuntu)")
	return cmd
}
