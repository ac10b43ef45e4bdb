//! Compiles what runs in the kernel for the feature `xdp`; without it there is nothing to do.

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    #[cfg(feature = "xdp")]
    for name in ["gate", "dctcp", "ect1"] {
        bpf::compile(name);
    }
}

#[cfg(feature = "xdp")]
mod bpf {
    use std::path::PathBuf;

    use libbpf_cargo::SkeletonBuilder;

    pub(crate) fn compile(name: &str) {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        let source = format!("bpf/{name}.bpf.c");
        // Debian keeps <asm/types.h> in a directory named after the machine; clang for the BPF
        // target does not look there by itself.
        let machine = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
        let include = format!("-I/usr/include/{machine}-linux-gnu");
        let built = SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{name}.bpf.o")))
            .clang_args([include.as_str(), "-Ibpf", "-Wall", "-Werror"])
            .build();
        if let Err(e) = built {
            panic!(
                "{source} cannot be compiled: {e:#}\n\
                 `sudo tools/setup` installs what is missing (clang, libelf-dev, zlib1g-dev); \
                 `cargo build --no-default-features` does without"
            );
        }
    }
}
