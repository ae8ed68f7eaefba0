package cli

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"quantix/internal/release"
)

func newRelease() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Sign releases of the agent, which the portal offers to hosts",
		Long: `Sign releases of the agent. The portal offers the files of its setting agentReleases; a host installs only a release
that a key of its setting upgradeKeys has signed. Keep the private key away from the portal.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newReleaseKeygen(), newReleaseSign(), newReleaseVerify())
	return cmd
}

func newReleaseKeygen() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Write a new private key to FILE, and print the public key for agent.yaml",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, file, err := release.NewKey()
			if err != nil {
				return err
			}
			f, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists already: give the name of a new file", args[0])
			}
			if err != nil {
				return err
			}
			if _, err := f.Write(file); err != nil {
				return errors.Join(err, f.Close())
			}
			if err := errors.Join(f.Sync(), f.Close()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), key.Public())
			return err
		},
	}
}

func newReleaseSign() *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use:   "sign FILE --key KEYFILE",
		Short: "Sign the program quantix-<version>-<os>-<arch>, and write FILE.sig",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if keyFile == "" {
				return errors.New("give --key, the file from \"quantix release keygen\"")
			}
			text, err := os.ReadFile(keyFile)
			if err != nil {
				return err
			}
			key, err := release.ParsePrivateKey(text)
			if err != nil {
				return fmt.Errorf("%s: %w", keyFile, err)
			}
			m, err := signFile(args[0], key)
			if err != nil {
				return err
			}
			sig, err := m.Encode()
			if err != nil {
				return err
			}
			if err := os.WriteFile(args[0]+release.SignatureSuffix, sig, 0o644); err != nil { //nolint:gosec // a public file
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Signed version %s for %s with the key %s.\n", m.Version, m.Platform, m.KeyID)
			return err
		},
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "the private key's file")
	return cmd
}

// signFile signs a program. Its name has the version and the platform, which must be that of the program's build.
func signFile(path string, key release.PrivateKey) (release.Manifest, error) {
	version, platform, ok := release.ParseFileName(filepath.Base(path))
	if !ok {
		return release.Manifest{}, fmt.Errorf("name the file quantix-<version>-<os>-<arch>, for example %s", release.FileName("1.2.0", release.Platform{OS: "linux", Arch: "amd64"}))
	}
	if built, err := buildinfo.ReadFile(path); err == nil {
		for _, s := range built.Settings {
			if s.Key == "GOOS" && s.Value != platform.OS || s.Key == "GOARCH" && s.Value != platform.Arch {
				return release.Manifest{}, fmt.Errorf("the program was built for %s, not for %s: correct the file's name", s.Value, platform)
			}
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return release.Manifest{}, err
	}
	defer f.Close()
	return release.Sign(key, f, version, platform)
}

func newReleaseVerify() *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use:   "verify FILE --key ed25519:…",
		Short: "Check the signature FILE.sig of a program as a host does",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var trusted []release.PublicKey
			for _, text := range keys {
				key, err := release.ParsePublicKey(text)
				if err != nil {
					return err
				}
				trusted = append(trusted, key)
			}
			if len(trusted) == 0 {
				return errors.New("give --key, a public key that the hosts trust")
			}
			m, err := verifyFile(args[0], trusted)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Version %s for %s, signed with the key %s.\n", m.Version, m.Platform, m.KeyID)
			return err
		},
	}
	cmd.Flags().StringSliceVar(&keys, "key", nil, "a trusted public key")
	return cmd
}

func verifyFile(path string, keys []release.PublicKey) (m release.Manifest, err error) {
	sig, err := os.ReadFile(path + release.SignatureSuffix)
	if err != nil {
		return m, err
	}
	if m, err = release.ParseManifest(sig); err != nil {
		return m, err
	}
	if err := m.Verify(keys); err != nil {
		return m, err
	}
	if name := release.FileName(m.Version, m.Platform); filepath.Base(path) != name {
		return m, fmt.Errorf("the signature is that of %s", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	return m, m.CheckProgram(f)
}
