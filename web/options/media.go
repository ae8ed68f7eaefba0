package options

import (
	"context"
	"slices"
	"strings"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// lunOptions lists unused LUNs (volumes that the storage system created), for users who may assign them.
func (r *Reader) lunOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if !policy.May(a, policy.InfraChange, "") {
		return nil, nil
	}
	if c.Media != nil {
		return volumeOptions(c.Media.LUNs), nil
	}
	luns, err := r.Control.LUNs(ctx, a)
	return volumeOptions(luns), err
}

// isoOptions lists the ISO images. The chosen image is included even if its pool has no recent report.
func (r *Reader) isoOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	return r.mediaOptions(ctx, a, c, func(all *query.Media) []query.VolumeOn { return all.ISOs })
}

// removableMediaOptions lists the media for additional drives: ISO images and floppy images.
func (r *Reader) removableMediaOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	return r.mediaOptions(ctx, a, c, func(all *query.Media) []query.VolumeOn {
		return slices.Concat(all.ISOs, plainFilesUpToSize(all.Images, fleet.MaxFloppyBytes))
	})
}

// fileOptions lists plain files, such as kernels.
func (r *Reader) fileOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	return r.mediaOptions(ctx, a, c, func(all *query.Media) []query.VolumeOn { return plainFilesUpToSize(all.Images, 1<<30) })
}

func (r *Reader) mediaOptions(ctx context.Context, a fleet.Actor, c Query, of func(*query.Media) []query.VolumeOn) ([]kit.Option, error) {
	if c.Media == nil {
		all, err := r.Control.Media(ctx, a)
		if err != nil {
			return nil, err
		}
		c.Media = &all
	}
	return c.volumeOptionsWithChosen(of(c.Media)), nil
}

// plainFilesUpToSize returns the plain files of up to most bytes.
func plainFilesUpToSize(all []query.VolumeOn, most int64) []query.VolumeOn {
	return slices.DeleteFunc(slices.Clone(all), func(v query.VolumeOn) bool { return !v.IsPlainFile() || v.CapacityBytes > most })
}

// volumeOptionsWithChosen returns the volumes as options, including the chosen value.
func (c Query) volumeOptionsWithChosen(all []query.VolumeOn) []kit.Option {
	out := volumeOptions(all)
	for _, value := range c.Chosen {
		now := form.ParseVolumeValue(value)
		if now.Volume != "" && !slices.ContainsFunc(out, func(o kit.Option) bool { return o.Value == value }) {
			out = append(out, kit.Option{Value: value, Text: now.Volume})
		}
	}
	return out
}

func volumeOptions(volumes []query.VolumeOn) (out []kit.Option) {
	for _, v := range volumes {
		out = append(out, volumeOption(v))
	}
	return out
}

func volumeOption(v query.VolumeOn) kit.Option {
	text := v.Name + " · " + kit.Bytes(v.CapacityBytes)
	if v.PoolName != "" {
		text += " · " + v.PoolName
	}
	if !v.Shared && len(v.Hosts) > 0 {
		var hosts []string
		for _, h := range v.Hosts {
			hosts = append(hosts, h.Name)
		}
		text += " on " + strings.Join(hosts, ", ")
	}
	return kit.Option{Value: vmview.VolumeValue(v.PoolID, v.Name), Text: text}
}
