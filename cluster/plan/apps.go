package plan

import "fmt"

// bringApps brings the container images of the applications to a machine that
// serves them.
func (m *maker) bringApps(h Host) {
	for _, a := range m.want.Apps {
		m.add(h, "image", ImageArgs{Descriptor: a.Full, Name: ImageName(m.want.Cluster, a.Full)}, Adds, "application "+a.Image.Name+" with its container images in the machine's store")
		m.plan.Steps[len(m.plan.Steps)-1].Bytes = m.lacking(h, append(append([]Blob(nil), a.Image.Layers...), a.Image.Registry...))
	}
}

// served returns the digests of the images that the registries serve. Where two
// have one tag, the later image's is served.
func (m *maker) served() []string {
	digests := []string{m.want.Full.Digest.Encoded()}
	for _, a := range m.want.Apps {
		digests = append(digests, a.Full.Digest.Encoded())
	}
	return digests
}

// apps makes the steps of the applications on the cluster that stands: their
// files and their start commands, on the first master.
func (m *maker) apps() {
	first := m.first()
	for _, a := range m.want.Apps {
		m.plan.Applications = append(m.plan.Applications, a.Image.Name)
		args := RootfsArgs{Image: a.Full.Digest, Generation: a.Generation, Inputs: a.Inputs, Aside: true}
		m.after(m.add(first, "rootfs", args, Adds, fmt.Sprintf("files of application %s, generation %s", a.Image.Name, a.Generation)))
		m.guests(a.Commands, a.Generation, " of "+a.Image.Name)
	}
}

// guests adds start commands, which run in the rootfs of a generation.
func (m *maker) guests(commands []Command, generation, of string) {
	first := m.first()
	for i, c := range commands {
		args := ScriptArgs{Run: c.Run, Dir: c.Dir, Generation: generation, Env: c.Env, Number: i + 1, Kube: true}
		m.after(m.add(first, "guest", args, Adds, fmt.Sprintf("start command %d%s: %s", i+1, of, short(c.Run))))
	}
}
