package pluginhost

import (
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// elsewhere says for which other system a program was built; empty where it is for this
// one, or where its file doesn't tell: a script, say.
func elsewhere(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "" // whoever reads it says so
	}
	defer func() { _ = f.Close() }() // nothing was written
	system, arch := builtFor(f)
	if system == "" || system == runtime.GOOS && (arch == "" || arch == runtime.GOARCH) {
		return ""
	}
	if system == "elf" && runtime.GOOS != "darwin" && runtime.GOOS != "windows" {
		if arch == "" || arch == runtime.GOARCH {
			return ""
		}
		system = runtime.GOOS
	}
	return fmt.Sprintf("is built for %s, this is %s/%s", strings.TrimSuffix(system+"/"+arch, "/"), runtime.GOOS, runtime.GOARCH)
}

// builtFor reads a program's header. An ELF file rarely says for which system it is; an
// architecture that has no name in Go is empty.
func builtFor(r io.ReaderAt) (system, arch string) {
	if f, err := elf.NewFile(r); err == nil {
		arch = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_386: "386", elf.EM_ARM: "arm",
			elf.EM_RISCV: "riscv64", elf.EM_S390: "s390x", elf.EM_LOONGARCH: "loong64"}[f.Machine]
		if f.Machine == elf.EM_PPC64 {
			arch = map[elf.Data]string{elf.ELFDATA2LSB: "ppc64le", elf.ELFDATA2MSB: "ppc64"}[f.Data]
		}
		return "elf", arch
	}
	if f, err := macho.NewFile(r); err == nil {
		return "darwin", map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[f.Cpu]
	}
	if f, err := pe.NewFile(r); err == nil {
		return "windows", map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "amd64", pe.IMAGE_FILE_MACHINE_ARM64: "arm64", pe.IMAGE_FILE_MACHINE_I386: "386"}[f.Machine]
	}
	return "", ""
}
